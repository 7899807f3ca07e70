-- counts_of_tenant: counts for one tenant. Looks at every job that waits.
-- :tenant
select queue, state, jobs, 0, null from longshore_count
 where tenant = :tenant and jobs > 0
union all
select j.queue, 'ready', count(*), 0, min(r.run_at)
  from longshore_ready r cross join longshore_job j on j.seq = r.seq
 where j.tenant = :tenant group by j.queue
union all
select queue, 'parked', count(*), 0, null
  from longshore_parked where tenant = :tenant group by queue
union all
select j.queue, 'scheduled', count(*), 0, null
  from longshore_scheduled w cross join longshore_job j on j.seq = w.seq
 where j.tenant = :tenant group by j.queue
union all
select j.queue, 'running', count(*), sum(h.started_at is null), null
  from longshore_held h cross join longshore_job j on j.seq = h.seq
 where j.tenant = :tenant group by j.queue
