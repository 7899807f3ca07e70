-- tenant_get: one tenant.
-- :name
select definition, created_at from longshore_tenant where name = :name
