-- bucket_put: store a bucket.
-- :name :empty_at :full_at
insert into longshore_bucket (name, empty_at, full_at) values (:name, :empty_at, :full_at)
    on conflict (name) do update
   set empty_at = excluded.empty_at, full_at = excluded.full_at
