-- schedule_move: move a schedule on, if it still stands where the caller saw it and nobody else
-- is at it. Whoever comes second does not wait: a firer that was stopped in the middle would
-- hold up all schedules that are due. The server gives up on such a one before its schedule is
-- taken to have been down (core.schedule.STALL_US). name, tenant, expected, next_due, last_due,
-- version or null
with mine as materialized (
    select r.name, r.tenant from longshore.record r
     where r.kind = 'schedule' and r.name = $1 and r.tenant = $2 and r.due = $3
       and r.version = coalesce($6, r.version)
       for no key update skip locked)
update longshore.record r set due = $4, last_due = $5
  from mine, set_config('idle_in_transaction_session_timeout', '2s', true)
 where r.kind = 'schedule' and r.name = mine.name and r.tenant = mine.tenant
returning 1
