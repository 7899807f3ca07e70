-- fact_put: remember a fact about the store; nothing when it is known. name, value
insert into longshore.fact (name, value) values ($1, $2) on conflict do nothing returning name
