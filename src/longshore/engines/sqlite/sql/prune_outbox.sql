-- prune_outbox: drop old events while there is no consumer.
-- :before :limit
-- reads longshore_outbox_age.
delete from longshore_outbox where position in (
    select position from longshore_outbox indexed by longshore_outbox_age
     where at <= :before order by at limit :limit)
