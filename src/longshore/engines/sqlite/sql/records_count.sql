-- records_count: how many records of a kind a tenant has.
-- :kind :tenant
select count(*) from longshore_record where tenant = :tenant and kind = :kind
