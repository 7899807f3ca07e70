-- webhooks: the endpoints of one tenant, or of all. tenant
select definition, created_at, id, tenant from longshore.webhook
 where $1::text is null or tenant = $1 order by created_at, id
