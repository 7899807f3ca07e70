-- depths: of queues that must not get too deep how many jobs may wait, and how many do.
select f.queue, (f.settings ->> 'max_depth')::bigint as most,
       (coalesce((select sum(r.size) from longshore.ready r where r.queue = f.queue), 0)
        + (select count(*) from longshore.parked p where p.queue = f.queue)
        + coalesce((select sum(s.size) from longshore.scheduled s
                      where s.queue = f.queue), 0))::bigint as jobs
  from longshore.flow f where f.settings ? 'max_depth'
