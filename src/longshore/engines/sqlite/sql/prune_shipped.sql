-- prune_shipped: drop old events that a relay has shipped; what it has not is kept.
-- :before :limit
-- reads longshore_outbox_shipped.
delete from longshore_outbox where position in (
    select position from longshore_outbox indexed by longshore_outbox_shipped
     where published_at is not null and at <= :before order by at limit :limit)
