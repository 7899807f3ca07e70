-- bucket_prune: forget buckets that are full; how many. clock, most
select longshore.prune_buckets($1, $2)
