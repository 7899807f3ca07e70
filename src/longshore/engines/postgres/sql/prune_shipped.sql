-- prune_shipped: drop old events that a relay has shipped; what it has not is kept.
-- last moment, limit
-- reads outbox_shipped.
delete from longshore.outbox o where o.ctid = any (array(
    select x.ctid from longshore.outbox x where x.published_at is not null and x.at <= $1
     order by x.at limit $2 for update skip locked))
returning 1
