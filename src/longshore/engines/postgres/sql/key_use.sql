-- key_use: note the use of keys whose last one was long ago, or is yet to come by this clock.
-- ids, clock, how long ago
with at as materialized (select longshore.clock($2) as now)
update longshore.key k set last_used_at = at.now from at
 where k.id = any ($1::text[])
   and (k.last_used_at is null or k.last_used_at <= at.now - $3 or k.last_used_at > at.now)
