-- firing_prune: forget due times that lie too far back to be fired again.
-- :before :limit
delete from longshore_firing where (tenant, name, due) in (
    select tenant, name, due from longshore_firing where due <= :before limit :limit)
