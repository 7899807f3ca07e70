-- settled_history: one row per laid-out settlement that is not a success.
-- :worker
-- Runs after settle: attempt is what the job row says by then.
insert or ignore into longshore_attempt
    (seq, delivery, attempt, outcome, worker, started_at, finished_at, failure)
select s.seq, s.delivery, j.attempt, s.outcome, :worker, j.started_at, s.ended_at, s.failure
  from longshore_settling s
  join longshore_job j on j.seq = s.seq
 where s.state <> 'succeeded'
