-- tenant_get: one tenant. name
select definition, created_at from longshore.tenant where name = $1
