-- Queues: limits, pauses and token buckets.

-- flow_delete: let nothing hold for a queue.
-- :queue
delete from longshore_flow where queue = :queue

-- flow_free: jobs of a queue have ended.
-- :queue :jobs
update longshore_flow set running = running - :jobs where queue = :queue

-- flow_get: what holds for a queue.
-- :queue
select settings from longshore_flow where queue = :queue

-- flow_move: how far a fair queue is.
-- :queue :at
update longshore_flow set vtime = :at where queue = :queue

-- flow_put: let this hold for a queue. How many run is counted once more: nobody did while
-- nothing was said.
-- :queue :settings :resets  whether its bucket is full again
insert into longshore_flow (queue, settings, running)
values (:queue, :settings,
        (select count(*) from longshore_held h cross join longshore_job j on j.seq = h.seq
          where j.queue = :queue))
    on conflict (queue) do update
   set settings = excluded.settings, running = excluded.running,
       empty_at = case when :resets then null else empty_at end

-- flow_took: jobs of a queue were claimed.
-- :queue :jobs :empty_at
update longshore_flow set running = running + :jobs, empty_at = :empty_at where queue = :queue

-- flows: what holds for queues, how many of their jobs run, what is left of their rates, and
-- how far those are that are fair.
select queue, settings, running, empty_at, vtime from longshore_flow

-- pause: stop handing out.
-- :queue :type
insert into longshore_pause (queue, type) values (:queue, :type) on conflict do nothing

-- pauses: everything that is paused; an empty string stands for any.
select queue, type from longshore_pause

-- resume: undo one pause.
-- :queue :type
delete from longshore_pause where queue = :queue and type = :type

-- bucket_get: what is stored of a bucket.
-- :name
select empty_at from longshore_bucket where name = :name

-- bucket_put: store a bucket.
-- :name :empty_at :full_at
insert into longshore_bucket (name, empty_at, full_at) values (:name, :empty_at, :full_at)
    on conflict (name) do update
   set empty_at = excluded.empty_at, full_at = excluded.full_at

-- bucket_prune: forget buckets that are full.
-- :before :limit
delete from longshore_bucket where name in (
    select name from longshore_bucket indexed by longshore_bucket_full
     where full_at <= :before order by full_at limit :limit)
