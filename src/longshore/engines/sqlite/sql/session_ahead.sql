-- session_ahead: whether a lease ends further ahead than its length: the clock was set back.
-- :now
select exists (select 1 from longshore_session indexed by longshore_session_live
                where closed_at is null and expires_at > :now + lease)
