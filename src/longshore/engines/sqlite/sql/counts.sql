-- counts: jobs by queue and state.
-- :tenant
select queue, state, count(*), sum(parked is not null), sum(started_at is null),
       min(case when state = 'ready' then run_at end)
  from longshore_job
 where :tenant is null or tenant = :tenant
 group by queue, state
