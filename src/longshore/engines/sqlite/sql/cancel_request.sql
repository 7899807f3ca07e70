-- cancel_request: ask the holders of running jobs to stop them.
-- :seqs
update longshore_job set cancel_requested = 1
 where seq in (select value from json_each(:seqs))
