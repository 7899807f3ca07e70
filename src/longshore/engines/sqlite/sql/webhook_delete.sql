-- webhook_delete: remove an endpoint.
-- :id :tenant
delete from longshore_webhook where id = :id and (:tenant is null or tenant = :tenant)
