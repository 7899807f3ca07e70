-- webhook_delete: remove an endpoint. id, tenant
delete from longshore.webhook where id = $1 and ($2::text is null or tenant = $2)
returning id
