-- job_insert_plain: job_insert for jobs without keys, trace and tags, which most jobs are.
-- A parameter that is null costs as much as any other: five of them were 2.5 µs a job.
-- The line of parameters is repeated once per job.
insert into longshore_job
    (id, tenant, queue, type, state, priority, rank, run_at, created_at, max_attempts,
     timeout, payload)
values
    (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (id) do nothing
