-- depths: of queues that must not get too deep how many jobs may wait, and how many do.
select queue, settings ->> 'max_depth',
       (select count(*) from longshore_ready r where r.queue = f.queue)
       + (select count(*) from longshore_parked p where p.queue = f.queue)
       + (select count(*) from longshore_scheduled s indexed by longshore_scheduled_due
           where s.queue = f.queue)
  from longshore_flow f where settings ->> 'max_depth' is not null
