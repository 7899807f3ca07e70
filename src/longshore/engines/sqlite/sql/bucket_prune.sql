-- bucket_prune: forget buckets that are full.
-- :before :limit
delete from longshore_bucket where name in (
    select name from longshore_bucket indexed by longshore_bucket_full
     where full_at <= :before order by full_at limit :limit)
