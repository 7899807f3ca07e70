-- next_due: when the next scheduled job is due.
select min(run_at) from longshore_scheduled indexed by longshore_scheduled_due
