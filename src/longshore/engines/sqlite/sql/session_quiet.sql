-- session_quiet: ask a worker to drain.
-- :token
update longshore_session set is_quiet = 1 where token = :token and closed_at is null
