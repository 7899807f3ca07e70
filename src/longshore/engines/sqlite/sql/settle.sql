-- Settle: what becomes of jobs that a session holds.

-- settle: what claims that end in any other way leave behind. A claim that is no longer this
-- session's matches no row, which is the fence. The line of parameters is repeated once per
-- claim.
-- handle, delivery, run_at, charge, crash, lapse, started_at; at the end: token
-- Runs before settled_history, which runs before the job goes where it goes.
update longshore_held as h
   set run_at     = coalesce(nullif(s.column3, -1), h.run_at),
       attempt    = h.attempt + (s.column7 <> -1 and h.started_at is null),
       failures   = h.failures + s.column4,
       crashes    = h.crashes + s.column5,
       lapses     = h.lapses + s.column6,
       started_at = coalesce(nullif(s.column7, -1), h.started_at)
  from (values
    (?, ?, ?, ?, ?, ?, ?)
       ) as s
 where h.token = ?
   and h.seq = s.column1
   and h.delivery = s.column2

-- settle_finished: claims that end with the job dead or cancelled.
-- :token :ends  JSON array of [handle, state, finished_at, reason]
-- Runs before let_go.
insert into longshore_finished
    (seq, state, finished_at, run_at, delivery, attempt, failures, crashes, lapses, token,
     started_at, reason)
select h.seq, s.value ->> 1, s.value ->> 2, h.run_at, h.delivery, h.attempt, h.failures,
       h.crashes, h.lapses, h.token, h.started_at, s.value ->> 3
  from json_each(:ends) s
 cross join longshore_held h on h.token = :token and h.seq = s.value ->> 0

-- settle_ready: claims that end with the job ready again, where it stood before.
-- :token :seqs  JSON array
-- Runs before let_go.
insert into longshore_ready
    (queue, type, rank, seq, size, run_at, delivery, attempt, failures, crashes, lapses,
     started_at)
select j.queue, j.type, j.rank, j.seq, length(j.payload), h.run_at, h.delivery, h.attempt,
       h.failures, h.crashes, h.lapses, h.started_at
  from json_each(:seqs) s
 cross join longshore_held h on h.token = :token and h.seq = s.value
 cross join longshore_job j on j.seq = h.seq

-- settle_scheduled: claims that end with the job waiting for a later time.
-- :token :seqs  JSON array
-- Runs before let_go.
insert into longshore_scheduled
    (seq, queue, run_at, delivery, attempt, failures, crashes, lapses, started_at)
select j.seq, j.queue, h.run_at, h.delivery, h.attempt, h.failures, h.crashes, h.lapses,
       h.started_at
  from json_each(:seqs) s
 cross join longshore_held h on h.token = :token and h.seq = s.value
 cross join longshore_job j on j.seq = h.seq

-- settle_succeeded: end claims in success. A claim that is no longer this session's matches no
-- row, which is the fence. The line of parameters is repeated once per claim.
-- handle, delivery, started_at, finished_at, result; at the end: token
-- Runs before let_go.
insert into longshore_finished
    (seq, state, finished_at, run_at, delivery, attempt, failures, crashes, lapses, token,
     started_at, result)
select h.seq, 'succeeded', s.column4, h.run_at, h.delivery,
       h.attempt + (h.started_at is null), h.failures, h.crashes, h.lapses, h.token,
       nullif(s.column3, -1), nullif(s.column5, -1)
  from (values
    (?, ?, ?, ?, ?)
       ) as s
 cross join longshore_held h on h.token = ? and h.seq = s.column1 and h.delivery = s.column2

-- settled_history: a row of history per claim that ended otherwise than in success.
-- The line of parameters is repeated once per claim.
-- handle, delivery, outcome, ended_at, failure, worker; at the end: token
-- Runs after settle: attempt and start are what it left. A row of zeros matches no claim.
insert or ignore into longshore_attempt
    (seq, delivery, outcome, finished_at, failure, worker, attempt, started_at)
select s.column1, s.column2, s.column3, s.column4, nullif(s.column5, -1), s.column6, h.attempt,
       h.started_at
  from (values
    (?, ?, ?, ?, ?, ?)
       ) as s
 cross join longshore_held h on h.token = ? and h.seq = s.column1

-- let_go: these claims have ended.
-- :token :seqs  JSON array
delete from longshore_held
 where token = :token and seq in (select value from json_each(:seqs))

-- report: keep how far running jobs say they are. A claim that is no longer this session's
-- matches no row, which is the fence. The line of parameters is repeated once per report.
-- handle, delivery, fraction, message, now; at the end: token
insert into longshore_progress (seq, delivery, fraction, message, at)
select h.seq, h.delivery, s.column3, nullif(s.column4, -1), s.column5
  from (values
    (?, ?, ?, ?, ?)
       ) as s
 cross join longshore_held as h
 where h.token = ?
   and h.seq = s.column1
   and h.delivery = s.column2
    on conflict (seq) do update
   set delivery = excluded.delivery, fraction = excluded.fraction,
       message = excluded.message, at = excluded.at

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

-- is_held: whether a claim is still this session's.
-- :handle :delivery :token
select 1 from longshore_held
 where token = :token and seq = :handle and delivery = :delivery

-- in_held: continues job_columns; jobs that run, of which there are few among millions.
 where j.seq in (select seq from longshore_held)

-- in_ready: continues job_columns; jobs that are ready.
 where (exists (select 1 from longshore_ready r
                 where r.queue = j.queue and r.type = j.type and r.rank = j.rank
                   and r.seq = j.seq)
        or exists (select 1 from longshore_parked p where p.seq = j.seq))

-- in_scheduled: continues job_columns; jobs that wait for a time.
 where j.seq in (select seq from longshore_scheduled)

-- in_finished: continues job_columns; jobs that are dead or cancelled, of which there may be
-- few among millions.
-- :state
-- reads longshore_finished_age.
 where j.seq in (select seq from longshore_finished indexed by longshore_finished_age
                  where state = :state)

-- in_succeeded: continues job_columns; jobs that succeeded, which most of them did.
 where exists (select 1 from longshore_finished f
                where f.seq = j.seq and f.state = 'succeeded')

-- leave_finished: these jobs are no longer finished, or are being removed.
-- :seqs  JSON array
delete from longshore_finished where seq in (select value from json_each(:seqs))

-- leave_parked: these jobs are no longer parked. Harmless for others.
-- :seqs  JSON array
delete from longshore_parked where seq in (select value from json_each(:seqs))

-- leave_ready: these jobs are no longer ready. Harmless for others.
-- :seqs  JSON array
delete from longshore_ready where (queue, type, rank, seq) in (
    select queue, type, rank, seq from longshore_job
     where seq in (select value from json_each(:seqs)))

-- leave_scheduled: these jobs no longer wait for a time. Harmless for others.
-- :seqs  JSON array
delete from longshore_scheduled where seq in (select value from json_each(:seqs))

-- count_add: add what a transaction changed.
-- :changes  JSON array of [tenant, queue, state, jobs]
insert into longshore_count (tenant, queue, state, jobs)
select value ->> 0, value ->> 1, value ->> 2, value ->> 3 from json_each(:changes) where true
on conflict (tenant, queue, state) do update set jobs = jobs + excluded.jobs
