-- parked_any: whether any job of a line is parked.
-- :queue :tenant :key
select exists (select 1 from longshore_parked
                where queue = :queue and tenant = :tenant and key = :key)
