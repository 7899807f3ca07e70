-- schedule_last_job: remember the newest job of a schedule.
-- :tenant :name :id
update longshore_schedule set last_job = :id where tenant = :tenant and name = :name
