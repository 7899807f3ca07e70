-- fact_delete: it is no longer so.
-- :name
delete from longshore_fact where name = :name
