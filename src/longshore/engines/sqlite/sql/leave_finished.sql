-- leave_finished: these jobs are no longer finished, or are being removed.
-- :seqs  JSON array
delete from longshore_finished where seq in (select value from json_each(:seqs))
