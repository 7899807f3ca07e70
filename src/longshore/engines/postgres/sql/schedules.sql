-- Schedules: what is due, and fires.

-- schedule_due: the records of schedules that are due, each with whether its last job is still
-- live; one row at least. clock, limit
select c.now, s.*,
       coalesce(longshore.state_of(s.last_job) in ('ready', 'scheduled', 'running'), false)
           as is_last_job_live
  from (select longshore.clock($1) as now) c
  left join lateral (
       select r.* from longshore.record r
        where r.due is not null and r.due <= c.now and r.kind = 'schedule'
        order by r.due limit $2) s on true
 order by s.due, s.tenant, s.name

-- schedule_last_job: remember the newest job of a schedule. name, tenant, id
update longshore.record set last_job = $3
 where kind = 'schedule' and name = $1 and tenant = $2

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

-- firing_add: take due times; those that were not taken before. tenant, name, dues, ids
insert into longshore.firing (tenant, name, due, id)
select $1, $2, t.due, t.id from unnest($3::bigint[], $4::uuid[]) as t (due, id)
on conflict do nothing
returning due
