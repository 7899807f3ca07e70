-- replay: make dead or cancelled jobs ready again, as if they had never failed.
-- :seqs :now
update longshore_job
   set state = 'ready', run_at = :now, failures = 0, crashes = 0, lapses = 0,
       started_at = null, finished_at = null, reason = null, result = null,
       cancel_requested = 0
 where seq in (select value from json_each(:seqs))
