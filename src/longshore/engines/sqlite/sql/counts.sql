-- counts: jobs by queue and state: how many, not started, and the oldest ready one.
-- One statement, so that a job is counted once while it moves.
select queue, state, sum(jobs), 0, null from longshore_count
 group by queue, state having sum(jobs) > 0
union all
select substr(name, 8), 'pruned', number, 0, null from longshore_total
 where name >= 'pruned/' and name < 'pruned0'
union all
select queue, 'ready', count(*), 0, min(run_at) from longshore_ready group by queue
union all
select queue, 'parked', count(*), 0, null from longshore_parked group by queue
union all
select queue, 'scheduled', count(*), 0, null
  from longshore_scheduled indexed by longshore_scheduled_due group by queue
union all
select j.queue, 'running', count(*), sum(h.started_at is null), null
  from longshore_held h cross join longshore_job j on j.seq = h.seq group by j.queue
