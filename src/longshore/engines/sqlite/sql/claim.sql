-- claim: hand jobs to a session. A new delivery per claim: whoever held the job before can
-- no longer settle it.
-- :token :number :seqs  JSON array
update longshore_job
   set state = 'running', delivery = delivery + 1, token = :token, claimed_by = :number,
       started_at = null
 where seq in (select value from json_each(:seqs))
