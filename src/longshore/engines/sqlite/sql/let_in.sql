-- let_in: jobs of lines may be claimed.
-- :jobs  JSON array of [seq, run_at, delivery, attempt]
insert into longshore_ready
    (queue, type, rank, seq, size, run_at, delivery, attempt, failures, crashes, lapses)
select j.queue, j.type, j.rank, j.seq, length(j.payload), s.value ->> 1, s.value ->> 2,
       s.value ->> 3, 0, 0, 0
  from json_each(:jobs) s cross join longshore_job j on j.seq = s.value ->> 0
