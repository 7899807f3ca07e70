-- bucket_put: store a bucket that this transaction holds. name, empty at, full at
update longshore.bucket set empty_at = $2, full_at = $3 where name = $1
