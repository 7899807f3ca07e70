-- webhook_get: one endpoint. id, tenant
select definition, created_at, id, tenant from longshore.webhook
 where id = $1 and ($2::text is null or tenant = $2)
