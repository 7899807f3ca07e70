-- records_hold: hold what a write is to change. kinds, names, tenants, tenants that stay, tenants
-- that are to be deleted, kinds and tenants of caps
select * from longshore.hold_records($1, $2, $3, $4, $5, $6, $7)
