-- sessions: live leases with what they hold, oldest first.
-- :now
-- reads longshore_session_live and longshore_held.
select s.token, s.worker, s.queues, s.types, s.opened_at, s.renewed_at, s.expires_at,
       s.is_quiet, (select count(*) from longshore_held h where h.token = s.token)
  from longshore_session s
 where s.closed_at is null and s.expires_at > :now
 order by s.token
