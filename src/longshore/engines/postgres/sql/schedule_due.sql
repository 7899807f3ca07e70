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
