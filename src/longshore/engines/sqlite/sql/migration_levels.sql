-- migration_levels: where the store remembers up to which migration the code of each session
-- knows them.
create table if not exists longshore_session_level (
    token integer primary key,
    level integer not null
) strict
