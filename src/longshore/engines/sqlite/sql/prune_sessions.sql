-- prune_sessions: forget sessions that ended long ago and that no job remembers as current.
-- :before :limit
delete from longshore_session where token in (
    select token from longshore_session
     where closed_at is not null and closed_at <= :before limit :limit)
