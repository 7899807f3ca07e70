-- Breakers: circuit breakers of types.

-- breaker_delete: nothing holds for a type any more. type
delete from longshore.breaker where type = $1

-- breaker_move: so a breaker stands now. type, standing, phase, since, until
update longshore.breaker set standing = $2, phase = $3, since = $4, until = $5 where type = $1

-- breaker_put: let this hold for a type; how its breaker stands stays. type, settings, probes
insert into longshore.breaker (type, settings, probes) values ($1, $2, $3)
    on conflict (type) do update set settings = excluded.settings, probes = excluded.probes

-- breakers: what holds for the breakers of types, and how they stand.
select type, settings, standing from longshore.breaker order by type

-- breakers_hold: the same of some, which nobody else moves until we are done. types
select type, settings, standing from longshore.breaker where type = any ($1)
 order by type for update
