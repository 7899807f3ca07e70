-- weight_delete: the share of a tenant in fair queues is that of any other.
-- :tenant
delete from longshore_weight where tenant = :tenant
