-- session_shorten: let no lease end later than its full length from now. clock
update longshore.session s set expires_at = now + s.lease from longshore.clock($1) as now
 where s.expires_at > now + s.lease
