-- promote: make scheduled jobs ready.
-- :seqs  JSON array
update longshore_job set state = 'ready' where seq in (select value from json_each(:seqs))
