-- expire_dead: the same for dead jobs, with what an audit needs. last moment, most jobs and bytes
select e.segment, e.lo, e.hi, e.size, e.mask, e.reason, s.queue, s.type, s.tenant,
       substring(s.ids from e.lo * 16 + 1 for (e.hi - e.lo) * 16) as ids,
       s.payloads[e.lo + 1 : e.hi] as payloads
  from longshore.expire('dead', $1, $2, $3) e join longshore.segment s using (segment)
