-- delete_unique: let go of the unique keys that these jobs still hold. Runs before delete_jobs.
-- :seqs
delete from longshore_unique where (tenant, key, id) in (
    select tenant, unique_key, id from longshore_job
     where seq in (select value from json_each(:seqs)) and unique_key is not null)
