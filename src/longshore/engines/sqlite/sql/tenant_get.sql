-- tenant_get: one tenant.
-- :name
select definition, created_at, name from longshore_tenant where name = :name
