-- record_delete: remove a record. kind, name, tenant
delete from longshore.record where kind = $1 and name = $2 and tenant = $3
