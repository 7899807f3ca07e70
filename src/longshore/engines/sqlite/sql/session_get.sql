-- session_get: where a live session stands. No row when its lease is over: that is the fence.
-- :token :now
select exchange, refused, is_quiet, expires_at
  from longshore_session
 where token = :token and closed_at is null and expires_at > :now
