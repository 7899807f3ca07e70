-- session_of: what a live session was opened with. token, clock
select s.worker, s.queues, s.types, s.lease from longshore.session s
 where s.token = $1 and s.expires_at > longshore.clock($2)
