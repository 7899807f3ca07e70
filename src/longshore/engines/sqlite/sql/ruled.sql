-- ruled: whether anything is paused, limited or guarded by a breaker. Mostly nothing is.
select exists (select 1 from longshore_pause),
       exists (select 1 from longshore_flow),
       exists (select 1 from longshore_breaker)
