-- tenant_records_newest: records_newest of one tenant.
-- :kind :owner, :created_at :name :tenant  the last of the page before, :prefix :end  the names,
-- :limit
indexed by longshore_record_tenant_age
 where r.tenant = :owner and r.kind = :kind
   and (r.created_at, r.name, r.tenant) < (:created_at, :name, :tenant)
   and r.name >= :prefix and r.name < :end
 order by r.created_at desc, r.name desc limit :limit
