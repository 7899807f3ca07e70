-- settled_history: a row of history per claim that ended otherwise than in success.
-- The line of parameters is repeated once per claim.
-- handle, delivery, outcome, ended_at, failure, worker; at the end: token
-- Runs after settle: attempt and start are what it left. A row of zeros matches no claim.
insert or ignore into longshore_attempt
    (seq, delivery, outcome, finished_at, failure, worker, attempt, started_at)
select s.column1, s.column2, s.column3, s.column4, nullif(s.column5, -1), s.column6, h.attempt,
       h.started_at
  from (values
    (?, ?, ?, ?, ?, ?)
       ) as s
 cross join longshore_held h on h.token = ? and h.seq = s.column1
