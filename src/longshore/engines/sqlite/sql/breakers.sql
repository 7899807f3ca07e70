-- breakers: what holds for the breakers of types, and how they stand.
select type, settings, standing from longshore_breaker order by type
