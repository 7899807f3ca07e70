-- tenant_records_by_name: records_by_name of one tenant.
-- :kind :owner, :name  the first that may be on it, :end  the end of the names, :limit
-- The index is named because SQLite would read those of all tenants.
indexed by longshore_record_tenant
 where r.tenant = :owner and r.kind = :kind and r.name >= :name and r.name < :end
 order by r.name limit :limit
