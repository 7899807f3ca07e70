-- tenant_delete: remove a tenant.
-- :name
delete from longshore_tenant where name = :name
