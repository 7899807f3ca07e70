-- job_columns: a job as people see it; the beginning of every reading statement.
select j.seq, j.id, j.type, j.queue, j.tenant, j.state, j.priority, j.payload, j.run_at,
       j.created_at, j.max_attempts, j.timeout, j.delivery, j.attempt, j.failures, j.crashes,
       j.lapses, j.started_at, j.finished_at, j.result, j.failure, j.reason, j.parked,
       case when j.state = 'running' then w.worker end, j.cancel_requested, j.unique_key,
       j.idempotency_key, j.ordering_key, j.trace, j.tags, p.fraction, p.message, p.at
  from longshore_jobs j
  left join longshore_session w on w.token = j.token
  left join longshore_progress p on p.seq = j.seq and p.delivery = j.delivery
