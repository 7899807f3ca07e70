-- job_seq: whether an id is a job already.
-- :id
select seq from longshore_job where id = :id
