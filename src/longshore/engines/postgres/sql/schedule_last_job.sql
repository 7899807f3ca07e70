-- schedule_last_job: remember the newest job of a schedule. tenant, name, id
update longshore.schedule set last_job = $3 where tenant = $1 and name = $2
