-- outbox_after: batches behind a position, in order of commit.
-- :after :limit
select position, at, body from longshore_outbox
 where position > :after order by position limit :limit
