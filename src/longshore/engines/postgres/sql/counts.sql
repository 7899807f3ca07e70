-- counts: jobs by queue and state: how many, not started, and the oldest ready one. One
-- statement, so that a job is counted once while it moves.
with held as materialized (select * from longshore.held)
select r.queue, 'ready' as state, sum(r.size)::bigint as jobs, 0::bigint as buffered,
       min(r.run_at) as oldest
  from longshore.ready r group by r.queue
union all
select r.queue, 'parked', count(*), 0, null from longshore.parked r group by r.queue
union all
select r.queue, 'scheduled', sum(r.size), 0, null from longshore.scheduled r group by r.queue
union all
select h.queue, 'running', h.running, h.buffered, null from held h
union all
select f.queue, f.state, sum(f.jobs)::bigint, 0, null
  from (select t.queue, t.state, t.jobs from longshore.tallied t
        union all
        select h.queue, 'succeeded', h.succeeded from held h) f
 group by f.queue, f.state
union all
select substr(t.name, 8), 'pruned', t.number, 0, null from longshore.total t
 where starts_with(t.name, 'pruned/')
