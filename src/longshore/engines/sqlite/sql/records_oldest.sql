-- records_oldest: a page of the records of a kind, the oldest first; behind record_columns.
-- :kind, :created_at :name :tenant  the last of the page before, :prefix :end  the names, :limit
-- The index is named because SQLite would look for the names first, and sort what it finds.
indexed by longshore_record_age
 where r.kind = :kind and (r.created_at, r.name, r.tenant) > (:created_at, :name, :tenant)
   and r.name >= :prefix and r.name < :end
 order by r.created_at, r.name, r.tenant limit :limit
