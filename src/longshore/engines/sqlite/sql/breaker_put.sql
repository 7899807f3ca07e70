-- breaker_put: let this hold for a type; how its breaker stands stays.
-- :type :settings
insert into longshore_breaker (type, settings) values (:type, :settings)
    on conflict (type) do update set settings = excluded.settings
