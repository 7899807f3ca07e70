-- tenant_stay: one tenant, which is not deleted until the transaction ends. name
select definition, created_at from longshore.tenant where name = $1 for key share
