-- last_worker: who finished a job.
-- :seq
select s.worker from longshore_finished f join longshore_session s on s.token = f.token
 where f.seq = :seq
