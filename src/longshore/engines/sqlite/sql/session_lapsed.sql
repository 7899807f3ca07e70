-- session_lapsed: whether a session is still there and its lease ended before :before.
-- :token :before
select worker from longshore_session
 where token = :token and closed_at is null and expires_at <= :before
