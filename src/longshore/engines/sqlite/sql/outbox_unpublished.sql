-- outbox_unpublished: the oldest batches that no relay has marked.
-- :limit
-- reads longshore_outbox_unpublished.
select position, at, body from longshore_outbox indexed by longshore_outbox_unpublished
 where published_at is null order by position limit :limit
