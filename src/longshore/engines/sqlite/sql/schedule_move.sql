-- schedule_move: move a schedule on, if it still stands where the caller saw it.
-- :tenant :name :expected :next_due :last_due
update longshore_schedule
   set next_due = :next_due, last_due = :last_due
 where tenant = :tenant and name = :name and next_due = :expected and is_paused = 0
