-- session_shorten: let no lease end later than its full length from now.
-- :now
update longshore_session set expires_at = :now + lease
 where closed_at is null and expires_at > :now + lease
