-- quarantine_prune: forget what was set aside long ago.
-- :before :limit
delete from longshore_quarantine where number in (
    select number from longshore_quarantine indexed by longshore_quarantine_age
     where at <= :before order by at limit :limit)
