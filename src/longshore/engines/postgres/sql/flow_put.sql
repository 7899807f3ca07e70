-- flow_put: let this hold for a queue. queue, settings
insert into longshore.flow (queue, settings) values ($1, $2::text::jsonb)
    on conflict (queue) do update set settings = excluded.settings
