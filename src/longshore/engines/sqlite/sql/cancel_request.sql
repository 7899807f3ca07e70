-- cancel_request: ask the holders of running jobs to stop them. The first reason stands.
-- :seqs :reason
update longshore_job set cancel_requested = 1, reason = :reason
 where seq in (select value from json_each(:seqs)) and cancel_requested = 0
