-- session_of: what a live session was opened with.
-- :token :now
select worker, queues, types, lease from longshore_session
 where token = :token and closed_at is null and expires_at > :now
