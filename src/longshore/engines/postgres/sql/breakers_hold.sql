-- breakers_hold: the same of some, which nobody else moves until we are done. types
select type, settings, standing from longshore.breaker where type = any ($1)
 order by type for update
