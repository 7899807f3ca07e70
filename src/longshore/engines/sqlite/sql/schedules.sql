-- schedules: every definition with its progress, by name.
-- :tenant
select tenant, name, definition, is_paused, next_due, last_due, last_job
  from longshore_schedule
 where :tenant is null or tenant = :tenant
 order by name, tenant
