-- job_find: some jobs of a listing, newest first, and where the next look begins.
-- state, queue, type, tenant, tag, each or null; handle to begin below; most jobs, most spans
select beyond, (job).*
  from longshore.find($1, $2, $3, $4, $5, $6, $7, $8)
