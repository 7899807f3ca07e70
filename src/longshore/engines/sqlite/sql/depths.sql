-- depths: where no more than so many jobs may wait, how many do: of a queue, with no tenant;
-- of its tenants; and with an empty tenant of any that has none.
select queue, null as tenant, settings ->> 'max_depth' as most,
       (select count(*) from longshore_ready r where r.queue = f.queue)
       + (select count(*) from longshore_parked p where p.queue = f.queue)
       + (select count(*) from longshore_scheduled s indexed by longshore_scheduled_due
           where s.queue = f.queue) as jobs
  from longshore_flow f where settings ->> 'max_depth' is not null
union all
select f.queue, w.tenant, f.settings ->> 'max_depth_per_tenant', sum(w.jobs)
  from longshore_flow f cross join (
       select r.queue, j.tenant, count(*) as jobs
         from longshore_ready r cross join longshore_job j on j.seq = r.seq
        where r.queue in (select queue from longshore_flow
                           where settings ->> 'max_depth_per_tenant' is not null)
        group by r.queue, j.tenant
       union all
       select p.queue, p.tenant, count(*) from longshore_parked p group by p.queue, p.tenant
       union all
       select s.queue, j.tenant, count(*)
         from longshore_scheduled s indexed by longshore_scheduled_due
        cross join longshore_job j on j.seq = s.seq
        where s.queue in (select queue from longshore_flow
                           where settings ->> 'max_depth_per_tenant' is not null)
        group by s.queue, j.tenant
       union all
       select queue, '', 0 from longshore_flow) w on w.queue = f.queue
 where f.settings ->> 'max_depth_per_tenant' is not null
 group by f.queue, w.tenant
