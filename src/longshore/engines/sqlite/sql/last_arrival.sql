-- last_arrival: the newest job and when it arrived. Ranks never run behind that, whatever
-- clocks do.
select seq, created_at from longshore_job order by seq desc limit 1
