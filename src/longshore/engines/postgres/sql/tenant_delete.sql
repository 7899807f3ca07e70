-- tenant_delete: remove a tenant, its keys and its endpoints. name
with keys as (delete from longshore.key where tenant = $1),
     endpoints as (delete from longshore.webhook where tenant = $1)
delete from longshore.tenant where name = $1
