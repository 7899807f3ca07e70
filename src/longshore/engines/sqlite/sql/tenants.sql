-- tenants: every tenant that was stored.
select definition, created_at from longshore_tenant
