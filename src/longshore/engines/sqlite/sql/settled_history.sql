-- settled_history: a row of history per claim that ended otherwise than in success.
-- The line of parameters is repeated once per claim.
-- handle, delivery, outcome, ended_at, failure, worker
-- Runs after settle: attempt and start are what the job row says by then.
insert or ignore into longshore_attempt
    (seq, delivery, outcome, finished_at, failure, worker, attempt, started_at)
select s.column1, s.column2, s.column3, s.column4, nullif(s.column5, -1), s.column6, j.attempt,
       j.started_at
  from (values
    (?, ?, ?, ?, ?, ?)
       ) as s
  join longshore_job j on j.seq = s.column1
