-- webhook_get: one endpoint.
-- :id :tenant
select definition, created_at from longshore_webhook
 where id = :id and (:tenant is null or tenant = :tenant)
