-- settle_succeeded: end claims in success. A claim that is no longer this session's matches no
-- row, which is the fence. The line of parameters is repeated once per claim.
-- handle, delivery, started_at, finished_at, result; at the end: token
-- Runs before let_go.
insert into longshore_finished
    (seq, state, finished_at, run_at, delivery, attempt, failures, crashes, lapses, token,
     started_at, result)
select h.seq, 'succeeded', s.column4, h.run_at, h.delivery,
       h.attempt + (h.started_at is null), h.failures, h.crashes, h.lapses, h.token,
       nullif(s.column3, -1), nullif(s.column5, -1)
  from (values
    (?, ?, ?, ?, ?)
       ) as s
 cross join longshore_held h on h.token = ? and h.seq = s.column1 and h.delivery = s.column2
