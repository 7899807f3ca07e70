-- last_arrival: when the newest job arrived. Ranks never run behind it, whatever clocks do.
select created_at from longshore_job order by seq desc limit 1
