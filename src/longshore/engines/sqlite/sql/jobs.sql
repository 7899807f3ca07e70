-- Jobs: what people see of jobs, and change.

-- job_by_id: continues job_columns.
-- :id :tenant
 where j.id = :id and (:tenant is null or j.tenant = :tenant)

-- job_columns: a job as people see it; the beginning of every reading statement.
select j.seq, j.id, j.type, j.queue, j.tenant, j.state, j.priority, j.payload, j.run_at,
       j.created_at, j.max_attempts, j.timeout, j.delivery, j.attempt, j.failures, j.crashes,
       j.lapses, j.started_at, j.finished_at, j.result, j.failure, j.reason, j.parked,
       case when j.state = 'running' then w.worker end, j.cancel_requested, j.unique_key,
       j.idempotency_key, j.ordering_key, j.trace, j.tags, p.fraction, p.message, p.at
  from longshore_jobs j
  left join longshore_session w on w.token = j.token
  left join longshore_progress p on p.seq = j.seq and p.delivery = j.delivery

-- job_find: ends what in_… began; newest first, from below :before.
-- :tenant :queue :type :tag :before :limit
   and j.seq < :before
   and (:tenant is null or j.tenant = :tenant)
   and (:queue is null or j.queue = :queue)
   and (:type is null or j.type = :type)
   and (:tag is null or (json_valid(j.tags)
        and exists (select 1 from json_each(j.tags) where value = :tag)))
 order by j.seq desc
 limit :limit

-- attempts: a job's deliveries that ended otherwise than in success, oldest first.
-- :seq
select delivery, attempt, outcome, worker, started_at, finished_at, failure
  from longshore_attempt where seq = :seq order by delivery

-- cancel: end waiting jobs.
-- :seqs :now :reason
-- Runs before leave_ready and leave_scheduled.
insert into longshore_finished
    (seq, state, finished_at, run_at, delivery, attempt, failures, crashes, lapses, token,
     started_at, reason)
select seq, 'cancelled', :now, run_at, delivery, attempt, failures, crashes, lapses, 0,
       started_at, :reason
  from longshore_jobs
 where seq in (select value from json_each(:seqs))

-- cancel_request: ask the holders of running jobs to stop them. The first reason stands.
-- :seqs :reason
update longshore_held set cancel_reason = :reason
 where token in (select token from longshore_session where closed_at is null)
   and seq in (select value from json_each(:seqs)) and cancel_reason is null

-- replay: make dead or cancelled jobs ready again, as if they had never failed, but for those
-- that stand in a line.
-- :seqs :now
-- Runs before leave_finished.
insert into longshore_ready
    (queue, type, rank, seq, size, run_at, delivery, attempt, failures, crashes, lapses)
select j.queue, j.type, j.rank, j.seq, length(j.payload), :now, f.delivery, f.attempt, 0, 0, 0
  from json_each(:seqs) s
 cross join longshore_finished f on f.seq = s.value
 cross join longshore_job j on j.seq = f.seq
 where j.ordering_key is null
