-- webhook_lock: one endpoint, which stays as it is until the transaction ends. id
select definition, created_at, id, tenant from longshore.webhook where id = $1 for update
