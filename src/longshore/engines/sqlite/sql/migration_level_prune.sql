-- migration_level_prune: forget the level of sessions that are gone.
delete from longshore_session_level
 where token not in (select token from longshore_session where closed_at is null)
