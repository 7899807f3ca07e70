-- in_ready: continues job_columns; jobs that are ready.
 where (exists (select 1 from longshore_ready r
                 where r.queue = j.queue and r.type = j.type and r.rank = j.rank
                   and r.seq = j.seq)
        or exists (select 1 from longshore_parked p where p.seq = j.seq))
