-- tenant_keys_delete: remove the keys of a tenant.
-- :name
delete from longshore_key where tenant = :name
