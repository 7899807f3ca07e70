-- in_succeeded: continues job_columns; jobs that succeeded, which most of them did.
 where exists (select 1 from longshore_finished f
                where f.seq = j.seq and f.state = 'succeeded')
