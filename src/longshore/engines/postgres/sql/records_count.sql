-- records_count: how many records of these kinds a tenant has, or (empty) nobody. tenant, kinds
select case when $1::text = '' then (
            select count(*) from longshore.record r
             where r.tenant = '' and r.kind = any ($2::text[]))
       else (
            select count(*) from longshore.record r
             where r.tenant = $1 and r.tenant <> '' and r.kind = any ($2::text[])) end
