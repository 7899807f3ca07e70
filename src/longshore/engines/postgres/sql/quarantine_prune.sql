-- quarantine_prune: forget events that a consumer set aside long ago. moment, most
delete from longshore.record where (kind, name, tenant) in (
    select r.kind, r.name, r.tenant from longshore.record r
     where r.kind = 'quarantined' and r.created_at <= $1 order by r.created_at limit $2)
