-- webhook_get: one endpoint.
-- :id :tenant
select definition, created_at, id, tenant from longshore_webhook
 where id = :id and (:tenant is null or tenant = :tenant)
