-- prune_sessions: forget sessions that ended long ago.
-- :before :limit
-- reads longshore_session_ended.
delete from longshore_session where token in (
    select token from longshore_session indexed by longshore_session_ended
     where closed_at is not null and closed_at <= :before order by closed_at limit :limit)
