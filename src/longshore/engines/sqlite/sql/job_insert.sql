-- job_insert: store jobs; one whose id is known is left alone.
-- The line of parameters is repeated once per job: one statement over many rows gives up the
-- interpreter lock once, not once per row.
-- returns nothing; the row count says how many were new. Runs before ready_add and
-- scheduled_add.
insert into longshore_job
    (id, payload, tenant, queue, type, priority, rank, created_at, due, max_attempts, timeout,
     unique_key, unique_until, idempotency_key, ordering_key, trace, tags)
with new (id, payload, tenant, queue, type, priority, rank, created_at, due, max_attempts,
          timeout, unique_key, unique_until, idempotency_key, ordering_key, trace, tags
         ) as (values
    (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
)
select id, payload, tenant, queue, type, priority, rank, created_at, nullif(due, -1),
       max_attempts, nullif(timeout, -1), nullif(unique_key, -1), nullif(unique_until, -1),
       nullif(idempotency_key, -1), nullif(ordering_key, -1), nullif(trace, -1),
       nullif(tags, -1)
  from new where id <> 0
on conflict (id) do nothing
