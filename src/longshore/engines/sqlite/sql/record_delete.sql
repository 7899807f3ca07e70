-- record_delete: remove a record.
-- :kind :name :tenant
delete from longshore_record where kind = :kind and name = :name and tenant = :tenant
