-- next_due: when the next scheduled job is due, and the time now. clock
-- reads scheduled_due.
select longshore.clock($1) as now,
       (select s.run_at from longshore.scheduled s order by s.run_at limit 1) as due
