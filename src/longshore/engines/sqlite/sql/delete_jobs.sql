-- delete_jobs: remove jobs.
-- :seqs
delete from longshore_job where seq in (select value from json_each(:seqs))
