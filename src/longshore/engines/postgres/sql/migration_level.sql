-- migration_level: note up to which migration the code of a session knows them, and forget the
-- sessions that are gone. token, level
with gone as (
    delete from longshore.session_level
     where token in (select l.token from longshore.session_level l
                      where not exists (select from longshore.session s where s.token = l.token)
                        for update skip locked)
)
insert into longshore.session_level (token, level) values ($1, $2)
