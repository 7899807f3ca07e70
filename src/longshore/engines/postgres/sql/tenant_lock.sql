-- tenant_lock: one tenant, which stays as it is until the transaction ends. name
select definition, created_at, name from longshore.tenant where name = $1 for update
