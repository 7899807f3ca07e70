-- Store: the schema and its migrations, numbers, and totals.

-- migration_add: remember one that is applied.
-- :number :name :checksum :works_with :now
insert or replace into longshore_migration (number, name, checksum, works_with, applied_at)
values (:number, :name, :checksum, :works_with, :now)

-- migration_announce: have code below a level leave, and let none of it in. It lapses by itself,
-- in case whoever said so is gone.
-- :number :name :checksum :works_with :until
insert or replace into longshore_migration (number, name, checksum, works_with, announced_until)
values (:number, :name, :checksum, :works_with, :until)

-- migration_behind: how many live sessions are of code below a level.
-- :works_with :now
select count(*)
  from longshore_session s left join longshore_session_level l on l.token = s.token
 where s.closed_at is null and s.expires_at > :now and coalesce(l.level, 0) < :works_with

-- migration_level: note up to which migration the code of a session knows them.
-- :token :level
insert into longshore_session_level (token, level) values (:token, :level)

-- migration_level_prune: forget the level of sessions that are gone.
delete from longshore_session_level
 where token not in (select token from longshore_session where closed_at is null)

-- migration_levels: where the store remembers up to which migration the code of each session
-- knows them.
create table if not exists longshore_session_level (
    token integer primary key,
    level integer not null
) strict

-- migration_table: where the store remembers its migrations. Code of every version reads it: it
-- only ever gets more columns. `works_with` is the lowest level of code that may work with the
-- migration: the newest migration such code knows. Until `announced_until` code below that has
-- to leave, though nothing is applied yet.
create table if not exists longshore_migration (
    number          integer primary key,
    name            text    not null,
    checksum        text    not null,
    works_with      integer not null,
    announced_until integer not null default 0,
    applied_at      integer
) strict

-- migration_withdraw: let everyone work again: what was announced does not come.
delete from longshore_migration where applied_at is null

-- migrations_applied: what the store remembers.
-- :now
select number, name, checksum, works_with, applied_at is not null
  from longshore_migration
 where applied_at is not null or announced_until > :now

-- numbers_can_move: a row if the schema has what moving the counters needs.
select 1 from sqlite_master where type = 'table' and name = 'longshore_position_gap'

-- numbers_first_session: the tokens of a store that has had no session begin behind this number:
-- a copy of it may have had some.
-- :number
insert into sqlite_sequence (name, seq)
select 'longshore_session', :number
 where not exists (select 1 from sqlite_sequence where name = 'longshore_session')

-- numbers_leave_out: remember which positions of events nobody will get.
-- :number
insert into longshore_position_gap (last_position, first_position)
select seq, :number from sqlite_sequence
 where name = 'longshore_outbox' and seq > 0 and seq < :number

-- numbers_move_ahead: sessions and events get numbers behind this one, unless there were none.
-- :number
update sqlite_sequence set seq = :number
 where name in ('longshore_session', 'longshore_outbox') and seq between 1 and :number

-- position_gaps_prune: forget gaps that all events and all consumers have passed.
delete from longshore_position_gap
 where first_position < coalesce((select min(position) from longshore_outbox), first_position + 1)
   and first_position <= coalesce((select min(position) from longshore_consumer), first_position)

-- total_add: add to a number that only grows.
-- :name :number
insert into longshore_total (name, number) values (:name, :number)
on conflict (name) do update set number = number + excluded.number

-- losses: how many workers vanished with jobs, and with how many jobs.
-- :workers :jobs  the names of these totals
select coalesce((select number from longshore_total where name = :workers), 0),
       coalesce((select number from longshore_total where name = :jobs), 0)
