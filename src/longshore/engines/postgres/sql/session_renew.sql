-- session_renew: push a live lease's end into the future. token, clock
update longshore.session s
   set renewed_at = t.now, expires_at = greatest(s.expires_at, t.now + s.lease)
  from (select longshore.clock($2) as now) t
 where s.token = $1 and s.expires_at > t.now
returning t.now, s.expires_at, s.is_quiet, (select e.number from longshore.era e) as era
