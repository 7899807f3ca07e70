-- lines_due: lines that open by now, because of their rate; the first ones first.
-- :now :limit
-- reads longshore_line_opens.
select queue, tenant, key from longshore_line indexed by longshore_line_opens
 where opens_at <= :now
 order by opens_at, queue, tenant, key limit :limit
