-- migration_level: note up to which migration the code of a session knows them.
-- :token :level
insert into longshore_session_level (token, level) values (:token, :level)
