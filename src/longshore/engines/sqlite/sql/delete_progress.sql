-- delete_progress: forget how far these jobs were.
-- :seqs
delete from longshore_progress where seq in (select value from json_each(:seqs))
