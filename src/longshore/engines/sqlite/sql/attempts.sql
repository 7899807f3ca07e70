-- attempts: a job's deliveries that ended otherwise than in success, oldest first.
-- :seq
select delivery, attempt, outcome, worker, started_at, finished_at, failure
  from longshore_attempt where seq = :seq order by delivery
