-- schedule_due: what has come due, with whether its last job is still live. clock, limit
-- reads schedule_due.
select now, s.tenant, s.name, s.definition, s.is_paused, s.next_due, s.last_due, s.last_job,
       coalesce(longshore.state_of(s.last_job) in ('ready', 'scheduled', 'running'), false)
           as is_last_job_live
  from longshore.schedule s, longshore.clock($1) as now
 where s.next_due is not null and s.next_due <= now and not s.is_paused
 order by s.next_due, s.tenant, s.name
 limit $2
