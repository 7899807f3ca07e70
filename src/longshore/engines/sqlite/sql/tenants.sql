-- tenants: every tenant that was stored.
select definition, created_at, name from longshore_tenant
