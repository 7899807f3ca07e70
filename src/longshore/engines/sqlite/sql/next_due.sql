-- next_due: when the next scheduled job is due.
select min(run_at) from longshore_job indexed by longshore_job_due where state = 'scheduled'
