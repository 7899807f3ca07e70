-- expire_dead: the same for dead jobs, with what an audit needs. last moment, most jobs and bytes
select segment, lo, hi, size, mask, reason, queue, type, tenant, ids, payloads, bounds,
       types, tenants
  from longshore.expire_dead($1, $2, $3)
