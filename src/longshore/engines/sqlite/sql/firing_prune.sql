-- firing_prune: forget due times that lie too far back to be fired again.
-- :before :limit
-- reads longshore_firing_age.
delete from longshore_firing where (tenant, name, due) in (
    select tenant, name, due from longshore_firing indexed by longshore_firing_age
     where due <= :before order by due limit :limit)
