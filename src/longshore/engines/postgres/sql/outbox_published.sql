-- outbox_published: mark batches as shipped. clock, positions
-- reads outbox_unpublished.
update longshore.outbox o set published_at = longshore.clock($1)
 where o.position = any ($2) and o.position is not null and o.published_at is null
