-- fact_get: what is remembered about the store. name
select value from longshore.fact where name = $1
