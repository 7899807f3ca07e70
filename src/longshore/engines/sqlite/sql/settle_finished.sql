-- settle_finished: claims that end with the job dead or cancelled.
-- :token :ends  JSON array of [handle, state, finished_at, reason]
-- Runs before let_go.
insert into longshore_finished
    (seq, state, finished_at, run_at, delivery, attempt, failures, crashes, lapses, token,
     started_at, reason)
select h.seq, s.value ->> 1, s.value ->> 2, h.run_at, h.delivery, h.attempt, h.failures,
       h.crashes, h.lapses, h.token, h.started_at, s.value ->> 3
  from json_each(:ends) s
 cross join longshore_held h on h.token = :token and h.seq = s.value ->> 0
