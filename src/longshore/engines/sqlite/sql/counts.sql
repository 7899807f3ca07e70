-- counts: jobs by queue and state: how many, parked, not started, and the oldest ready one.
-- One statement, so that a job is counted once while it moves.
-- reads longshore_job_ready, longshore_job_parked, longshore_job_due and longshore_job_held.
select queue, state, sum(jobs), 0, 0, null from longshore_count
 group by queue, state having sum(jobs) > 0
union all
select queue, 'ready', count(*), 0, 0, min(run_at)
  from longshore_job indexed by longshore_job_ready
 where state = 'ready' and parked is null group by queue
union all
select queue, 'ready', count(*), count(*), 0, min(run_at)
  from longshore_job indexed by longshore_job_parked
 where state = 'ready' and parked is not null group by queue
union all
select queue, 'scheduled', count(*), 0, 0, null
  from longshore_job indexed by longshore_job_due
 where state = 'scheduled' group by queue
union all
select queue, 'running', count(*), 0, sum(started_at is null), null
  from longshore_job indexed by longshore_job_held
 where state = 'running' group by queue
