-- session_end: end a live lease; nothing when it has lapsed. token, clock
delete from longshore.session s using (select longshore.clock($2) as now) t
 where s.token = $1 and s.expires_at > t.now
returning t.now
