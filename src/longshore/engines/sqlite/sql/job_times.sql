-- job_times: when a job arrived, and when it was due first; no row where the id is unknown.
-- :id
select created_at, coalesce(due, created_at) from longshore_job where id = :id
