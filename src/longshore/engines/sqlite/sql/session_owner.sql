-- session_owner: whom a session was opened for, as long as it is not closed.
-- :token
select owner from longshore_session where token = :token and closed_at is null
