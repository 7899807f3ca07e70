-- unique_put: take a unique key, from a finished holder if there was one.
-- :tenant :key :id
insert into longshore_unique (tenant, key, id) values (:tenant, :key, :id)
on conflict (tenant, key) do update set id = excluded.id
