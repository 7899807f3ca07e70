-- schedules: every definition with its progress, by name. tenant or null
select tenant, name, definition, is_paused, next_due, last_due, last_job from longshore.schedule
 where $1::text is null or tenant = $1
 order by name, tenant
