-- records_of_tenant_delete: remove what a tenant has, which is held. tenant
delete from longshore.record where tenant = $1 and tenant <> '' returning kind, name
