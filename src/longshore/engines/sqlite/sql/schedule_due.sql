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
