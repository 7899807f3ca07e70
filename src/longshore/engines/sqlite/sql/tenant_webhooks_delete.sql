-- tenant_webhooks_delete: remove the endpoints of a tenant.
-- :name
delete from longshore_webhook where tenant = :name
