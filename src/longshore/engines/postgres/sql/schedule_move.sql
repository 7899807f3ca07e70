-- schedule_move: move a schedule on, if it still stands where the caller saw it and nobody else
-- is at it. Whoever comes second does not wait: a firer that was stopped in the middle would
-- hold up all schedules that are due. The server gives up on such a one before its schedule is
-- taken to have been down (core.schedule.STALL_US). tenant, name, expected, next_due, last_due
with mine as materialized (
    select s.tenant, s.name from longshore.schedule s
     where s.tenant = $1 and s.name = $2 and s.next_due = $3 and not s.is_paused
       for no key update skip locked)
update longshore.schedule s set next_due = $4, last_due = $5
  from mine, set_config('idle_in_transaction_session_timeout', '2s', true)
 where s.tenant = mine.tenant and s.name = mine.name
returning 1
