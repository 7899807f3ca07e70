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
