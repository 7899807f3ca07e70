-- leave_scheduled: these jobs no longer wait for a time. Harmless for others.
-- :seqs  JSON array
delete from longshore_scheduled where seq in (select value from json_each(:seqs))
