-- fact_add: add to a number that is remembered of the store.
-- :name :number
insert into longshore_fact (name, value) values (:name, cast(:number as text))
on conflict (name) do update set value = cast(value + excluded.value as text)
