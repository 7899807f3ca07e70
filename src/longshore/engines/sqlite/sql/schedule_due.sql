-- schedule_due: what has come due, with whether its last job is still live.
-- :now :limit
-- reads longshore_schedule_due.
select s.tenant, s.name, s.definition, s.is_paused, s.next_due, s.last_due, s.last_job,
       exists (select 1 from longshore_job j
                where j.id = s.last_job
                  and not exists (select 1 from longshore_finished f where f.seq = j.seq))
  from longshore_schedule s indexed by longshore_schedule_due
 where s.next_due is not null and s.next_due <= :now and s.is_paused = 0
 order by s.next_due
 limit :limit
