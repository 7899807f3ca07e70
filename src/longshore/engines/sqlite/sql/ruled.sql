-- ruled: whether anything is paused, limited, guarded by a breaker, stands in a line or is fair.
-- Mostly nothing is.
select exists (select 1 from longshore_pause),
       exists (select 1 from longshore_flow),
       exists (select 1 from longshore_breaker),
       exists (select 1 from longshore_line),
       exists (select 1 from longshore_flow where settings ->> 'order' = 'fair')
