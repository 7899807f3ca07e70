-- Breakers: circuit breakers of types.

-- breaker_delete: nothing holds for a type any more.
-- :type
delete from longshore_breaker where type = :type

-- breaker_move: so a breaker stands now.
-- :type :standing
update longshore_breaker set standing = :standing where type = :type

-- breaker_put: let this hold for a type; how its breaker stands stays.
-- :type :settings
insert into longshore_breaker (type, settings) values (:type, :settings)
    on conflict (type) do update set settings = excluded.settings

-- breakers: what holds for the breakers of types, and how they stand.
select type, settings, standing from longshore_breaker order by type
