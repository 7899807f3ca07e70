-- schedule_get: one definition with its progress.
-- :tenant :name
select tenant, name, definition, is_paused, next_due, last_due, last_job
  from longshore_schedule
 where tenant = :tenant and name = :name
