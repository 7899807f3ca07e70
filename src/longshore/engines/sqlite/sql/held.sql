-- held: everything a session holds, as one JSON text.
-- :token
-- reads longshore_job_held.
select json_group_array(json_array(
           seq, delivery, hex(id), type, queue, tenant, started_at, attempt, failures, crashes,
           lapses, max_attempts, json(case when cancel_requested then 'true' else 'false' end),
           json(case when single then 'true' else 'false' end), claimed_by))
  from (select *, count(*) over () = 1 as single
          from longshore_job indexed by longshore_job_held
         where token = :token and state = 'running')
