-- job_times: when a job arrived, and when it is due; no row where the id is unknown. One that
-- came in the same transaction is in no state yet. Reads by key alone: a batch that is sent
-- again asks for each of its jobs.
-- :id
select j.created_at, coalesce(
       (select r.run_at from longshore_ready r
         where r.queue = j.queue and r.type = j.type and r.rank = j.rank and r.seq = j.seq),
       (select s.run_at from longshore_scheduled s where s.seq = j.seq),
       (select h.run_at from longshore_held h where h.seq = j.seq and h.token in (
               select token from longshore_session where closed_at is null)),
       (select f.run_at from longshore_finished f where f.seq = j.seq),
       j.due, j.created_at)
  from longshore_job j where j.id = :id
