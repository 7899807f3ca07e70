-- tenant_weight_delete: let a tenant have the usual share of fair queues. tenant
delete from longshore.tenant_weight where tenant = $1
