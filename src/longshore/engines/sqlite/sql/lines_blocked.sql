-- lines_blocked: lines that dead jobs block, as people see them.
-- :tenant  null: any, :limit
-- reads longshore_line_blocked.
select queue, key, tenant, inside,
       (select count(*) from longshore_parked p
         where p.queue = l.queue and p.tenant = l.tenant and p.key = l.key), last, dead, opens_at
  from longshore_line l indexed by longshore_line_blocked
 where dead <> '[]' and (:tenant is null or tenant = :tenant)
 order by queue, tenant, key limit :limit
