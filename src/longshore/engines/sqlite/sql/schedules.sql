-- Schedules: what is due, and fires.

-- schedule_due: the schedules whose time has come, each with the columns that record_columns has
-- and whether its last job is still live.
-- :now :limit
-- reads longshore_record_due.
select r.kind, r.name, r.tenant, r.version, r.body, r.created_at, r.changed_at, r.due,
       r.last_due, r.last_job, null, null,
       exists (select 1 from longshore_job j
                where j.id = r.last_job
                  and not exists (select 1 from longshore_finished f where f.seq = j.seq))
  from longshore_record r indexed by longshore_record_due
 where r.kind = 'schedule' and r.due is not null and r.due <= :now
 order by r.due, r.tenant, r.name
 limit :limit

-- schedule_last_job: remember the newest job of a schedule.
-- :tenant :name :id
update longshore_record set last_job = :id
 where kind = 'schedule' and name = :name and tenant = :tenant

-- schedule_move: set the next due time of a schedule, if it is still due when the caller saw.
-- Its version stays: the definition is as it was.
-- :tenant :name :expected :next_due :last_due :version  or null
update longshore_record
   set due = :next_due, last_due = :last_due
 where kind = 'schedule' and name = :name and tenant = :tenant and due = :expected
   and version = coalesce(:version, version)

-- firing_add: take a due time; no row when it was fired before.
-- :tenant :name :due :id
insert into longshore_firing (tenant, name, due, id) values (:tenant, :name, :due, :id)
on conflict do nothing

-- firing_prune: forget due times that lie too far back to be fired again.
-- :before :limit
-- reads longshore_firing_age.
delete from longshore_firing where (tenant, name, due) in (
    select tenant, name, due from longshore_firing indexed by longshore_firing_age
     where due <= :before order by due limit :limit)
