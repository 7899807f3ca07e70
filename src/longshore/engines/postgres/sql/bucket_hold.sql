-- bucket_hold: what is stored of a bucket, for this transaction alone. name, clock
select empty_at, now from longshore.bucket_hold($1, $2)
