-- claimed: what an exchange handed out and is still held, as one JSON text.
-- One row for all jobs: see writer.py. Blobs travel as hex, so that any payload passes.
-- :token :number
-- reads longshore_job_held.
select json_group_array(json_array(
           seq, delivery, hex(id), type, queue, tenant, hex(payload), priority,
           attempt - (started_at is not null),
           failures, crashes, lapses, max_attempts, timeout, created_at, run_at, trace, tags,
           rank))
  from longshore_job indexed by longshore_job_held
 where token = :token and state = 'running' and claimed_by = :number
