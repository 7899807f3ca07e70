-- claims_of: the spans a session holds, with what their jobs have of their own. token
select c.number, c.part, c.segment, c.lo, c.hi, c.size, c.weight, c.mask, c.rank, c.run_at,
       c.delivery, c.attempt, c.failures, c.crashes, c.lapses, s.queue, s.type, s.tenant,
       s.max_attempts, substring(s.ids from c.lo * 16 + 1 for (c.hi - c.lo) * 16) as ids,
       s.types[c.lo + 1 : c.hi] as types, s.tenants[c.lo + 1 : c.hi] as tenants,
       s.attributes::text as attributes
  from longshore.claim c join longshore.segment s using (segment)
 where c.token = $1
 order by c.number, c.part
