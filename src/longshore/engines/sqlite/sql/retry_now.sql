-- retry_now: make scheduled jobs ready.
-- :seqs :now
update longshore_job set state = 'ready', run_at = :now
 where seq in (select value from json_each(:seqs))
