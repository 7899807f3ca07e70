-- breaker_put: let this hold for a type; how its breaker stands stays. type, settings, probes
insert into longshore.breaker (type, settings, probes) values ($1, $2, $3)
    on conflict (type) do update set settings = excluded.settings, probes = excluded.probes
