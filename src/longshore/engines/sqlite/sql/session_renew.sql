-- session_renew: push the end of the lease; never backwards, whatever the clock does.
-- :token :now
update longshore_session
   set renewed_at = :now, expires_at = max(expires_at, :now + lease)
 where token = :token
returning expires_at
