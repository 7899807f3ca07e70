-- counts_of_tenant: counts for one tenant. Looks at every job that waits.
-- :tenant
-- reads longshore_job_ready, longshore_job_parked, longshore_job_due and longshore_job_held.
select queue, state, jobs, 0, 0, null from longshore_count
 where tenant = :tenant and jobs > 0
union all
select queue, 'ready', count(*), 0, 0, min(run_at)
  from longshore_job indexed by longshore_job_ready
 where state = 'ready' and parked is null and tenant = :tenant group by queue
union all
select queue, 'ready', count(*), count(*), 0, min(run_at)
  from longshore_job indexed by longshore_job_parked
 where state = 'ready' and parked is not null and tenant = :tenant group by queue
union all
select queue, 'scheduled', count(*), 0, 0, null
  from longshore_job indexed by longshore_job_due
 where state = 'scheduled' and tenant = :tenant group by queue
union all
select queue, 'running', count(*), 0, sum(started_at is null), null
  from longshore_job indexed by longshore_job_held
 where state = 'running' and tenant = :tenant group by queue
