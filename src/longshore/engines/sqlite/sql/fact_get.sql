-- fact_get: what is remembered about the store.
-- :name
select value from longshore_fact where name = :name
