-- prune_outbox: drop old events while no relay ever read them. last moment, limit
-- reads outbox_age.
delete from longshore.outbox o where o.ctid = any (array(
    select x.ctid from longshore.outbox x where x.at <= $1
     order by x.at limit $2 for update skip locked))
returning 1
