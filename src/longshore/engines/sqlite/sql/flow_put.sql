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
