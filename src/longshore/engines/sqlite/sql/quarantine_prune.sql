-- quarantine_prune: forget events that a consumer set aside long ago.
-- :before :limit
delete from longshore_record where (kind, name, tenant) in (
    select kind, name, tenant from longshore_record indexed by longshore_record_age
     where kind = 'quarantined' and created_at <= :before order by created_at limit :limit)
