-- line_get: a line as people see it.
-- :queue :tenant :key
select queue, key, tenant, inside,
       (select count(*) from longshore_parked p
         where p.queue = :queue and p.tenant = :tenant and p.key = :key), last, dead, opens_at
  from longshore_line
 where queue = :queue and tenant = :tenant and key = :key
