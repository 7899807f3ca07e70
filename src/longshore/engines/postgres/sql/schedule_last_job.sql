-- schedule_last_job: remember the newest job of a schedule. name, tenant, id
update longshore.record set last_job = $3
 where kind = 'schedule' and name = $1 and tenant = $2
