-- lines_look: have promote look at the next lines of a queue that have jobs parked; their names.
-- :queue :tenant :key :limit :now
update longshore_line set opens_at = :now
 where queue = :queue and (tenant, key) in (
       select l.tenant, l.key from longshore_line l
        where l.queue = :queue and (l.tenant, l.key) > (:tenant, :key) and l.dead = '[]'
          and exists (select 1 from longshore_parked p
                       where p.queue = l.queue and p.tenant = l.tenant and p.key = l.key)
        order by l.tenant, l.key limit :limit)
returning tenant, key
