-- expire_dead: the same for dead jobs, with what an audit needs. last moment, most jobs and bytes
select e.segment, e.lo, e.hi, e.size, e.mask, e.reason, e.queue, e.type, e.tenant, e.ids,
       e.payloads, e.bounds, e.types, e.tenants,
       (select s.attributes::text from longshore.segment s where s.segment = e.segment)
           as attributes
  from longshore.expire_dead($1, $2, $3) e
