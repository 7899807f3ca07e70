-- fact_put: remember a fact about the store.
-- :name :value
insert into longshore_fact (name, value) values (:name, :value)
on conflict (name) do update set value = excluded.value
