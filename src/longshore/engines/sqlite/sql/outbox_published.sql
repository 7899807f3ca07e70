-- outbox_published: mark batches as shipped.
-- :positions :now
update longshore_outbox set published_at = :now
 where position in (select value from json_each(:positions))
