-- prune_unique: forget unique keys whose holders are gone.
-- :limit
delete from longshore_unique where (tenant, key) in (
    select u.tenant, u.key from longshore_unique u
      left join longshore_job j on j.id = u.id
     where j.id is null limit :limit)
