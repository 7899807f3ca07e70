-- consumers: how all of them stand. clock
select name, position, behind, waits_since, holder, seen_at, gone_at from longshore.consumers($1)
