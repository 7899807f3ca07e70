-- last_worker: who claimed a job last.
-- :seq
select s.worker from longshore_job j join longshore_session s on s.token = j.token
 where j.seq = :seq
