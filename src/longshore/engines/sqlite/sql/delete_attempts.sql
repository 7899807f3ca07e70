-- delete_attempts: remove the history of removed jobs.
-- :seqs
delete from longshore_attempt where seq in (select value from json_each(:seqs))
