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
