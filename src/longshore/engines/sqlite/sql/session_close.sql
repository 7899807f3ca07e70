-- session_close: end a lease for good.
-- :token :now
update longshore_session set closed_at = :now where token = :token
