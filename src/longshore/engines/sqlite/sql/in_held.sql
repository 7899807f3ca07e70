-- in_held: continues job_columns; jobs that run, of which there are few among millions.
 where j.seq in (select seq from longshore_held)
