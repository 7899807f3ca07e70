-- job_insert: store jobs; one whose id is known is left alone.
-- The last line is repeated once per job: one statement over many rows gives up the
-- interpreter lock once, not once per row.
-- returns nothing; the row count says how many were new.
insert into longshore_job
    (id, tenant, queue, type, state, priority, rank, run_at, created_at, max_attempts,
     timeout, payload, unique_key, unique_until, idempotency_key, ordering_key, trace, tags)
values
    (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (id) do nothing
