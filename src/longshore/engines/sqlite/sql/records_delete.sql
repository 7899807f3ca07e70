-- records_delete: remove all records of a tenant; their kinds and names.
-- :tenant
delete from longshore_record where tenant = :tenant returning kind, name
