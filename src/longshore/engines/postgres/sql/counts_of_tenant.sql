-- counts_of_tenant: counts for one tenant. Looks at every span that waits. tenant
with line as materialized (
    select t.token, t.segment, t.ordinal, t.delivery, max(t.kind) as kind
      from longshore.told t group by t.token, t.segment, t.ordinal, t.delivery
), told as materialized (
    select c.token, c.number, c.part,
           count(*) filter (where t.kind = 0) as begun,
           count(*) filter (where t.kind = 1) as succeeded,
           count(*) filter (where t.kind >= 1) as ended
      from line t
      join longshore.claim c
        on c.token = t.token and c.segment = t.segment and c.delivery = t.delivery
       and t.ordinal >= c.lo and t.ordinal < c.hi and longshore.has(c.mask, t.ordinal)
      join longshore.segment s on s.segment = c.segment
     where coalesce(s.tenants[t.ordinal + 1], s.tenant) = $1
     group by c.token, c.number, c.part
), held as materialized (
    select s.queue, sum(w.jobs - coalesce(t.ended, 0)) as running,
           sum(w.jobs - coalesce(t.ended + t.begun, 0)) as buffered,
           coalesce(sum(t.succeeded), 0) as succeeded
      from longshore.claim c
      join longshore.segment s on s.segment = c.segment
     cross join lateral longshore.owners(s, c.lo, c.hi, c.mask, c.size) w
      left join told t on t.token = c.token and t.number = c.number and t.part = c.part
     where w.tenant = $1
     group by s.queue
)
select r.queue, 'ready' as state, sum(w.jobs)::bigint as jobs, 0::bigint as buffered,
       min(r.run_at) as oldest
  from longshore.ready r join longshore.segment s on s.segment = r.segment
 cross join lateral longshore.owners(s, r.lo, r.hi, r.mask, r.size) w
 where w.tenant = $1 group by r.queue
union all
select r.queue, 'parked', count(*), 0, null
  from longshore.parked r where r.tenant = $1 group by r.queue
union all
select r.queue, 'scheduled', sum(w.jobs)::bigint, 0, null
  from longshore.scheduled r join longshore.segment s on s.segment = r.segment
 cross join lateral longshore.owners(s, r.lo, r.hi, r.mask, r.size) w
 where w.tenant = $1 group by r.queue
union all
select h.queue, 'running', h.running::bigint, h.buffered::bigint, null from held h
union all
select f.queue, f.state, sum(f.jobs)::bigint, 0, null
  from (select t.queue, t.state, t.jobs from longshore.tallied t where t.tenant = $1
        union all
        select h.queue, 'succeeded', h.succeeded from held h) f
 group by f.queue, f.state
