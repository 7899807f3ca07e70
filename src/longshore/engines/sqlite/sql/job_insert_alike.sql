-- job_insert_alike: job_insert for jobs that differ in nothing but id and payload.
-- What they share is bound once, not once per job: that was half the cost of storing one.
-- The line of parameters is repeated once per job.
-- id, payload; at the end what they share, in the order of job_insert
insert into longshore_job
    (id, payload, tenant, queue, type, priority, rank, created_at, due, max_attempts, timeout,
     unique_key, unique_until, idempotency_key, ordering_key, trace, tags)
with new (id, payload) as (values
    (?, ?)
)
select id, payload, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
  from new where id <> 0
on conflict (id) do nothing
