-- bucket_get: what is stored of a bucket.
-- :name
select empty_at from longshore_bucket where name = :name
