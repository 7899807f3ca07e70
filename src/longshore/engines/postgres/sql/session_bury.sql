-- session_bury: end a session whose lease ended longer than the grace ago. This is the fence: a
-- call of the session that is under way holds the row, and what it leaves is judged anew.
-- token, clock, grace
delete from longshore.session s using longshore.clock($2) as now
 where s.token = $1 and s.expires_at <= now - $3::bigint
returning now, s.worker
