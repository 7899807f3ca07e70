-- lines_blocked: lines that dead jobs block. tenant or null, how many at most
select l.queue, l.key, l.tenant, l.inside, l.last, l.dead, l.opens_at,
       (select count(*) from longshore.parked p
         where p.queue = l.queue and p.tenant = l.tenant and p.key = l.key) as parked
  from longshore.line l
 where l.dead is not null and ($1::text is null or l.tenant = $1)
 order by l.queue, l.tenant, l.key limit $2
