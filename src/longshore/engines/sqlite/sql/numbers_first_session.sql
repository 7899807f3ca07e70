-- numbers_first_session: the tokens of a store that has had no session begin behind this number:
-- a copy of it may have had some.
-- :number
insert into sqlite_sequence (name, seq)
select 'longshore_session', :number
 where not exists (select 1 from sqlite_sequence where name = 'longshore_session')
