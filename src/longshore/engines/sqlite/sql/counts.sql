-- Counts: how many jobs there are.

-- counts: jobs by queue and state: how many, not started, and the oldest ready one.
-- One statement, so that a job is counted once while it moves.
select queue, state, sum(jobs), 0, null from longshore_count
 group by queue, state having sum(jobs) > 0
union all
select substr(name, 8), 'pruned', number, 0, null from longshore_total
 where name >= 'pruned/' and name < 'pruned0'
union all
select queue, 'ready', count(*), 0, min(run_at) from longshore_ready group by queue
union all
select queue, 'parked', count(*), 0, null from longshore_parked group by queue
union all
select queue, 'scheduled', count(*), 0, null
  from longshore_scheduled indexed by longshore_scheduled_due group by queue
union all
select j.queue, 'running', count(*), sum(h.started_at is null), null
  from longshore_held h cross join longshore_job j on j.seq = h.seq group by j.queue

-- counts_front: of a queue's type, how many jobs are ready, up to a limit; the oldest, and the
-- lowest number of these.
-- :queue :type :limit
-- Reads longshore_ready from the front of the type.
select count(*), min(run_at), min(seq)
  from (select run_at, seq from longshore_ready
         where queue = :queue and type = :type
         order by rank, seq
         limit :limit)

-- counts_heads: of a queue's type, the oldest of the first ready jobs behind each of these ranks,
-- and the lowest number of these.
-- :queue :type :ranks  JSON array
-- One seek in longshore_ready per rank.
select min(head ->> 0), min(head ->> 1)
  from (select (select json_array(run_at, seq) from longshore_ready
                 where queue = :queue and type = :type and rank >= base.value
                 order by rank, seq
                 limit 1) as head
          from json_each(:ranks) base)

-- counts_of_tenant: counts for one tenant. Looks at every job that waits.
-- :tenant
select queue, state, jobs, 0, null from longshore_count
 where tenant = :tenant and jobs > 0
union all
select j.queue, 'ready', count(*), 0, min(r.run_at)
  from longshore_ready r cross join longshore_job j on j.seq = r.seq
 where j.tenant = :tenant group by j.queue
union all
select queue, 'parked', count(*), 0, null
  from longshore_parked where tenant = :tenant group by queue
union all
select j.queue, 'scheduled', count(*), 0, null
  from longshore_scheduled w cross join longshore_job j on j.seq = w.seq
 where j.tenant = :tenant group by j.queue
union all
select j.queue, 'running', count(*), sum(h.started_at is null), null
  from longshore_held h cross join longshore_job j on j.seq = h.seq
 where j.tenant = :tenant group by j.queue

-- counts_range: the lowest number of a scheduled job, if there is one, and the highest of any.
select (select min(seq) from longshore_scheduled), (select max(seq) from longshore_job)

-- counts_sampled: how many of a sample of jobs are ready, scheduled or parked, by queue.
-- :low :step :size  one of every `step` jobs from the number `low` on, `size` of them
-- A multiple of a large prime decides which: a fixed place would meet all that repeats itself.
with recursive n (i) as (
    select 0 union all select i + 1 from n where i + 1 < :size
)
select j.queue,
       count(*) filter (where exists (
           select 1 from longshore_ready r
            where r.queue = j.queue and r.type = j.type and r.rank = j.rank
              and r.seq = j.seq)),
       count(*) filter (where exists (
           select 1 from longshore_scheduled s where s.seq = j.seq)),
       count(*) filter (where exists (
           select 1 from longshore_parked p where p.seq = j.seq))
  from n cross join longshore_job j on j.seq = :low + i * :step + (i * 2654435761) % :step
 group by j.queue

-- counts_settled: jobs by queue and state that need no look at what waits: how many, not started.
select queue, state, sum(jobs), 0 from longshore_count
 group by queue, state having sum(jobs) > 0
union all
select substr(name, 8), 'pruned', number, 0 from longshore_total
 where name >= 'pruned/' and name < 'pruned0'
union all
select j.queue, 'running', count(*), sum(h.started_at is null)
  from longshore_held h cross join longshore_job j on j.seq = h.seq group by j.queue

-- counts_waiting: how many jobs are scheduled or parked by queue, up to a limit of each.
-- :limit
select queue, 'scheduled', count(*)
  from (select queue from longshore_scheduled indexed by longshore_scheduled_due limit :limit)
 group by queue
union all
select queue, 'parked', count(*)
  from (select queue from longshore_parked limit :limit)
 group by queue
