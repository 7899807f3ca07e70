-- cancel: end waiting jobs.
-- :seqs :now :reason
update longshore_job
   set state = 'cancelled', finished_at = :now, reason = :reason, parked = null
 where seq in (select value from json_each(:seqs))
