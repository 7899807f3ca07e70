-- leave_parked: these jobs are no longer parked. Harmless for others.
-- :seqs  JSON array
delete from longshore_parked where seq in (select value from json_each(:seqs))
