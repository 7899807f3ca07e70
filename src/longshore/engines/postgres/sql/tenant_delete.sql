-- tenant_delete: remove a tenant and its keys. name
with gone as (delete from longshore.key where tenant = $1)
delete from longshore.tenant where name = $1
