-- line_get: a line as people see it. queue, tenant, key
select l.queue, l.key, l.tenant, l.inside, l.last, coalesce(l.dead, '{}') as dead, l.opens_at,
       (select count(*) from longshore.parked p
         where p.queue = l.queue and p.tenant = l.tenant and p.key = l.key) as parked
  from longshore.line l
 where l.queue = $1 and l.tenant = $2 and l.key = $3
