-- counts: jobs by queue and state: how many, not started, and the oldest ready one. One
-- statement, so that a job is counted once while it moves.
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
     group by c.token, c.number, c.part
), held as materialized (
    select s.queue, sum(c.size - coalesce(t.ended, 0)) as running,
           sum(c.size - coalesce(t.ended + t.begun, 0)) as buffered,
           coalesce(sum(t.succeeded), 0) as succeeded
      from longshore.claim c
      join longshore.segment s on s.segment = c.segment
      left join told t on t.token = c.token and t.number = c.number and t.part = c.part
     group by s.queue
)
select r.queue, 'ready' as state, sum(r.size)::bigint as jobs, 0::bigint as buffered,
       min(r.run_at) as oldest
  from longshore.ready r group by r.queue
union all
select r.queue, 'parked', count(*), 0, null from longshore.parked r group by r.queue
union all
select r.queue, 'scheduled', sum(r.size), 0, null from longshore.scheduled r group by r.queue
union all
select h.queue, 'running', h.running::bigint, h.buffered::bigint, null from held h
union all
select f.queue, f.state, sum(f.jobs)::bigint, 0, null
  from (select t.queue, t.state, t.jobs from longshore.tallied t
        union all
        select h.queue, 'succeeded', h.succeeded from held h) f
 group by f.queue, f.state
