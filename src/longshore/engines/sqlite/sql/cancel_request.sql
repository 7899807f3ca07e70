-- cancel_request: ask the holders of running jobs to stop them. The first reason stands.
-- :seqs :reason
update longshore_held set cancel_reason = :reason
 where token in (select token from longshore_session where closed_at is null)
   and seq in (select value from json_each(:seqs)) and cancel_reason is null
