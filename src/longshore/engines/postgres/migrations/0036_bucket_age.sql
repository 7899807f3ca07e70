-- Buckets that are full are found by an index: where keys have rates there is one for each key.
-- longshore: works-with 0021
-- longshore: outside-transaction
create index concurrently if not exists bucket_age on longshore.bucket (full_at)
