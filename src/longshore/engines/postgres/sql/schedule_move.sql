-- schedule_move: move a schedule on, if it still stands where the caller saw it. Others that
-- fire it wait here. tenant, name, expected, next_due, last_due
update longshore.schedule set next_due = $4, last_due = $5
 where tenant = $1 and name = $2 and next_due = $3 and not is_paused
returning 1
