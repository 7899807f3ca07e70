-- prune_idempotency: forget keys past their window; one that is in use is left for the next
-- time. last moment, limit
-- reads idempotency_age.
delete from longshore.idempotency k where k.ctid = any (array(
    select x.ctid from longshore.idempotency x where x.created_at <= $1
     order by x.created_at limit $2 for update skip locked))
returning 1
