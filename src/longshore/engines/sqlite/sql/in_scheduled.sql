-- in_scheduled: continues job_columns; jobs that wait for a time.
 where j.seq in (select seq from longshore_scheduled)
