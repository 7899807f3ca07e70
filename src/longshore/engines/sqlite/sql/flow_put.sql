-- flow_put: let this hold for a queue.
-- :queue :settings
insert into longshore_flow (queue, settings) values (:queue, :settings)
    on conflict (queue) do update set settings = excluded.settings
