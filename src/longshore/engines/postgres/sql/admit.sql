-- admit: which jobs may come in. clock, ids, tenants, keys, fingerprints, unique keys
select id, verdict from longshore.admit($1, $2, $3, $4, $5, $6)
