-- attempts: a job's deliveries that ended otherwise than in success, oldest first.
-- segment, ordinal
select delivery, attempt, outcome, worker, started_at, finished_at, failure::text as failure
  from longshore.attempt where segment = $1 and ordinal = $2 order by delivery
