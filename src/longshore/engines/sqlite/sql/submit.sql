-- Submit: jobs come in.

-- last_arrival: the newest job and when it arrived: ranks never run behind that, whatever
-- clocks do. And what holds for queues that have an order of their own, as one JSON text.
select coalesce(j.seq, 0), coalesce(j.created_at, 0),
       (select json_group_object(f.queue, json(f.settings)) from longshore_flow f
         where f.settings ->> 'order' is not null)
  from (select 1) left join (
       select seq, created_at from longshore_job order by seq desc limit 1) j

-- job_insert: store jobs; one whose id is known is left alone.
-- The line of parameters is repeated once per job: one statement over many rows gives up the
-- interpreter lock once, not once per row.
-- returns nothing; the row count says how many were new. Runs before ready_add and
-- scheduled_add.
insert into longshore_job
    (id, payload, tenant, queue, type, priority, rank, created_at, due, max_attempts, timeout,
     unique_key, unique_until, idempotency_key, ordering_key, trace, tags)
with new (id, payload, tenant, queue, type, priority, rank, created_at, due, max_attempts,
          timeout, unique_key, unique_until, idempotency_key, ordering_key, trace, tags
         ) as (values
    (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
)
select id, payload, tenant, queue, type, priority, rank, created_at, nullif(due, -1),
       max_attempts, nullif(timeout, -1), nullif(unique_key, -1), nullif(unique_until, -1),
       nullif(idempotency_key, -1), nullif(ordering_key, -1), nullif(trace, -1),
       nullif(tags, -1)
  from new where id <> 0
on conflict (id) do nothing

-- job_insert_alike: job_insert for jobs that differ in nothing but id and payload.
-- What they share is bound once, not once per job: that was half the cost of storing one.
-- The line of parameters is repeated once per job.
-- id, payload; at the end what they share, in the order of job_insert
insert into longshore_job
    (id, payload, tenant, queue, type, priority, rank, created_at, due, max_attempts, timeout,
     unique_key, unique_until, idempotency_key, ordering_key, trace, tags)
with new (id, payload) as (values
    (?, ?)
)
select id, payload, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
  from new where id <> 0
on conflict (id) do nothing

-- job_times: those of these ids that are jobs already, as [number, tenant, [arrived, due]].
-- The line of parameters is repeated once per job. A row of zeros matches no job.
-- number, id
-- The view is asked for one job at a time: joined, it would be made of all jobs first.
select json_group_array(json_array(
           s.column1, j.tenant, json_array(j.created_at, (
               select v.run_at from longshore_jobs v where v.seq = j.seq))))
  from (values
    (?, ?)
       ) as s
 cross join longshore_job j on j.id = s.column2

-- ready_add: new jobs that may run at once, but for those that stand in a line.
-- :after  the newest job before them
insert into longshore_ready
    (queue, type, rank, seq, size, run_at, delivery, attempt, failures, crashes, lapses)
select queue, type, rank, seq, length(payload), created_at, 0, 0, 0, 0, 0
  from longshore_job where seq > :after and due is null and ordering_key is null

-- ready_add_fair: ready_add where some of the queues are fair.
-- :after  the newest job before them
insert into longshore_ready
    (queue, type, rank, seq, size, run_at, delivery, attempt, failures, crashes, lapses, lane)
select j.queue, j.type, j.rank, j.seq, length(j.payload), j.created_at, 0, 0, 0, 0, 0,
       case when f.settings ->> 'order' = 'fair' then j.tenant else '' end
  from longshore_job j left join longshore_flow f on f.queue = j.queue
 where j.seq > :after and j.due is null and j.ordering_key is null

-- scheduled_add: new jobs that are to run later.
-- :after  the newest job before them
insert into longshore_scheduled
    (seq, queue, run_at, delivery, attempt, failures, crashes, lapses)
select seq, queue, due, 0, 0, 0, 0, 0
  from longshore_job where seq > :after and due is not null

-- idempotency_get: what keys stand for already, as [number, fingerprint, id, [created_at,
-- run_at]], the times being those of the job as it was accepted.
-- The line of parameters is repeated once per key. A row of zeros matches no key.
-- number, tenant, key
select json_group_array(json_array(
           s.column1, hex(i.fingerprint), hex(i.id), json_array(i.created_at, i.run_at)))
  from (values
    (?, ?, ?)
       ) as s
 cross join longshore_idempotency i on i.tenant = s.column2 and i.key = s.column3

-- idempotency_put: remember what keys stand for.
-- The line of parameters is repeated once per key.
-- tenant, key, fingerprint, id, arrival, run_at
insert into longshore_idempotency (tenant, key, fingerprint, id, created_at, run_at)
select s.column1, s.column2, s.column3, s.column4, s.column5, s.column6
  from (values
    (?, ?, ?, ?, ?, ?)
       ) as s
 where s.column1 <> 0

-- unique_holder: the jobs that keep others with their unique keys out, as [number, id].
-- The line of parameters is repeated once per key.
-- number, tenant, key
select json_group_array(json_array(s.column1, hex(j.id)))
  from (values
    (?, ?, ?)
       ) as s
 cross join longshore_unique u on u.tenant = s.column2 and u.key = s.column3
 cross join longshore_job j on j.id = u.id
 where not exists (select 1 from longshore_finished f where f.seq = j.seq)
   and (j.unique_until = 'finished' or not exists (
        select 1 from longshore_held h where h.seq = j.seq and h.token in (
               select token from longshore_session where closed_at is null)))

-- unique_put: take unique keys, from finished holders if there were any.
-- The line of parameters is repeated once per key.
-- tenant, key, id
insert into longshore_unique (tenant, key, id)
select s.column1, s.column2, s.column3 from (values
    (?, ?, ?)
       ) as s
 where s.column1 <> 0
on conflict (tenant, key) do update set id = excluded.id

-- joining: new jobs with ordering keys that may run at once, in order, as one JSON text.
-- :after  the newest job before them
select json_group_array(json_array(seq, hex(id), queue, tenant, ordering_key, created_at, 0, 0))
  from (select * from longshore_job
         where seq > :after and due is null and ordering_key is not null order by seq)

-- in_any: continues job_columns; jobs in whatever state.
 where true

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
