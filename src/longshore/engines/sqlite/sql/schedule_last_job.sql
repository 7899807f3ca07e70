-- schedule_last_job: remember the newest job of a schedule.
-- :tenant :name :id
update longshore_record set last_job = :id
 where kind = 'schedule' and name = :name and tenant = :tenant
