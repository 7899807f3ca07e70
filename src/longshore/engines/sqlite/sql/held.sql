-- held: everything a session holds, as one JSON text.
-- :token
select json_group_array(json_array(
           seq, delivery, hex(id), type, queue, tenant, started_at, attempt, failures, crashes,
           lapses, max_attempts, json(case when asked then 'true' else 'false' end),
           json(case when single then 'true' else 'false' end), claimed_by,
           trace))
  from (select h.*, h.cancel_reason is not null as asked, count(*) over () = 1 as single,
               j.id, j.type, j.queue, j.tenant, j.max_attempts, j.trace
          from longshore_held h cross join longshore_job j on j.seq = h.seq
         where h.token = :token)
