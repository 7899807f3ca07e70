-- fact_delete: it is no longer so; nothing when it was not. name
delete from longshore.fact where name = $1 returning name
