-- bucket_prune: forget buckets that are full. before, limit
with gone as (
    delete from longshore.bucket where name in (
        select name from longshore.bucket where full_at <= $1 order by full_at limit $2
           for update skip locked)
    returning name)
select count(*) from gone
