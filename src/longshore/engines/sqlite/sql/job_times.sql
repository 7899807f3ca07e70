-- job_times: since when a job is there, and when it is due; no row where the id is unknown. A job
-- that came with the same transaction is in no state yet.
-- :id
select j.created_at, coalesce(s.run_at, j.due, j.created_at)
  from longshore_job j left join longshore_jobs s on s.id = j.id where j.id = :id
