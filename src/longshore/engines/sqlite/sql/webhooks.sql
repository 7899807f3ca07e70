-- webhooks: the endpoints of one tenant, or of all.
-- :tenant
select definition, created_at, id, tenant from longshore_webhook
 where :tenant is null or tenant = :tenant order by created_at, id
