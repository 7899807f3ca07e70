-- schedule_lock: one definition with its progress, which stays so until the transaction ends.
-- tenant, name
select definition, is_paused, next_due, last_due, last_job from longshore.schedule
 where tenant = $1 and name = $2
   for no key update
