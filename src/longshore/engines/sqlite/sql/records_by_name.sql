-- records_by_name: a page of the records of a kind, by name and tenant; behind record_columns.
-- :kind, :name :tenant  the first that may be on it, :end  the end of the names, :limit
 where r.kind = :kind and (r.name, r.tenant) >= (:name, :tenant) and r.name < :end
 order by r.name, r.tenant limit :limit
