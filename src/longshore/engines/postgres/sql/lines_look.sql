-- lines_look: have promote look at the next lines of a queue that have jobs parked; their names,
-- and whether someone holds them, so that it could not be noted. queue, tenant, key, most, clock
with named as materialized (
    select l.tenant, l.key from longshore.line l
     where l.queue = $1 and (l.tenant, l.key) > ($2, $3) and l.dead is null
       and exists (select from longshore.parked p
                    where p.queue = l.queue and p.tenant = l.tenant and p.key = l.key)
     order by l.tenant, l.key limit $4
), free as materialized (
    select l.tenant, l.key from named n
      join longshore.line l on l.queue = $1 and l.tenant = n.tenant and l.key = n.key
       for update of l skip locked
), noted as (
    update longshore.line l set opens_at = longshore.clock($5) from free f
     where l.queue = $1 and l.tenant = f.tenant and l.key = f.key
)
select n.tenant, n.key, f.key is null as is_held
  from named n left join free f on f.tenant = n.tenant and f.key = n.key
 order by n.tenant, n.key
