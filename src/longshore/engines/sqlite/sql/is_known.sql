-- is_known: whether there is a job with this id.
-- :id
select 1 from longshore_job where id = :id
