-- admit: which jobs may come in, and the times they have.
-- clock, ids, tenants, keys, fingerprints, unique keys, due times, delays
select id, verdict, created_at, run_at, clock from longshore.admit($1, $2, $3, $4, $5, $6, $7, $8)
