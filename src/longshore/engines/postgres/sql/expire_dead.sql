-- expire_dead: the same for dead jobs, with what an audit needs. last moment, most jobs and bytes
select segment, lo, hi, size, mask, reason, queue, type, tenant, ids, payloads, bounds,
       types, tenants, attributes
  from longshore.expire_dead_whole($1, $2, $3)
