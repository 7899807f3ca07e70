-- Ordering keys: lines of jobs with an ordering key.

-- leave_lines: jobs that were inside their lines have ended. JSON array, clock
select longshore.leave_lines($1::text::jsonb, longshore.clock($2))

-- line_get: a line as people see it. queue, tenant, key
select l.queue, l.key, l.tenant, l.inside, l.last, coalesce(l.dead, '{}') as dead, l.opens_at,
       (select count(*) from longshore.parked p
         where p.queue = l.queue and p.tenant = l.tenant and p.key = l.key) as parked
  from longshore.line l
 where l.queue = $1 and l.tenant = $2 and l.key = $3

-- line_look: have promote look at a line, once nobody else holds it. queue, tenant, key, clock
update longshore.line set opens_at = longshore.clock($4)
 where queue = $1 and tenant = $2 and key = $3 and dead is null

-- line_up: jobs go to the ends of their lines, in this order. JSON array of objects, clock
select longshore.line_up(array(
    select row(t.segment, t.ordinal, t.run_at, t.rank, t.delivery, t.attempt, t.is_replayed
           )::longshore.joining
      from rows from (jsonb_to_recordset($1::text::jsonb) as (
               segment bigint, ordinal integer, run_at bigint, rank bigint, delivery integer,
               attempt integer, is_replayed boolean)) with ordinality
           as t (segment, ordinal, run_at, rank, delivery, attempt, is_replayed, place)
     order by t.place), longshore.clock($2))

-- lines_blocked: lines that dead jobs block. tenant or null, how many at most
select l.queue, l.key, l.tenant, l.inside, l.last, l.dead, l.opens_at,
       (select count(*) from longshore.parked p
         where p.queue = l.queue and p.tenant = l.tenant and p.key = l.key) as parked
  from longshore.line l
 where l.dead is not null and ($1::text is null or l.tenant = $1)
 order by l.queue, l.tenant, l.key limit $2

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

-- release_line: let a blocked line go on; whether it was. queue, tenant, key, clock
select longshore.release_line($1, $2, $3, longshore.clock($4))
