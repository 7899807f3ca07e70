-- Store: the schema and its migrations, numbers, and totals.

-- migration_add: remember one that is applied.
-- $1 number, $2 name, $3 checksum, $4 level of code that it works with
insert into longshore.migration as m (number, name, checksum, works_with, applied_at)
values ($1, $2, $3, $4, now())
    on conflict (number) do update
   set name = excluded.name, checksum = excluded.checksum, works_with = excluded.works_with,
       announced_until = null, applied_at = now()

-- migration_announce: have code below a level leave, and let none of it in. It lapses by itself,
-- after longer than a migration may take, in case whoever said so is gone.
-- $1 number, $2 name, $3 checksum, $4 level of code that it works with
insert into longshore.migration as m (number, name, checksum, works_with, announced_until)
values ($1, $2, $3, $4, now() + interval '20 minutes')
    on conflict (number) do update
   set name = excluded.name, checksum = excluded.checksum, works_with = excluded.works_with,
       announced_until = excluded.announced_until
 where m.applied_at is null

-- migration_behind: how many live sessions are of code below a level, whether the announcement
-- that keeps more of them out holds long enough, and whether someone tried just now.
-- $1 clock, $2 level, $3 number, $4 checksum
select (select count(*) from longshore.session s left join longshore.session_level l using (token)
         where s.expires_at > coalesce($1, (extract(epoch from clock_timestamp()) * 1000000)::bigint)
           and coalesce(l.level, 0) < $2) as sessions,
       exists (select from longshore.migration m
                where m.number = $3 and m.checksum = $4
                  and m.announced_until > now() + interval '15 minutes') as is_announced,
       exists (select from longshore.migration m
                where m.number = $3 and m.tried_at > now() - interval '1 second') as is_tried

-- migration_home: which of the schema, the table of migrations and that of sessions are there.
-- "create if not exists" asks for privileges that whoever only looks does not need.
select to_regnamespace('longshore') is not null as has_schema,
       to_regclass('longshore.migration') is not null as has_table,
       to_regclass('longshore.session') is not null as has_sessions

-- migration_lock: become the one that migrates, until the transaction ends; or false.
-- The number spells "longshor". A transaction's lock, since a pooler may hide a session.
select pg_try_advisory_xact_lock(7813585269108010866) as is_ours

-- migration_rest: the statement that removes an index which was left half built; none if there
-- is none. name
select format('drop index concurrently %s', i.indexrelid::regclass) as statement
  from pg_catalog.pg_index i
 where i.indexrelid = to_regclass('longshore.' || quote_ident($1)) and not i.indisvalid

-- migration_schema: where everything of this engine is.
create schema longshore

-- migration_table: where the store remembers its migrations, and up to which one the code of
-- each session knows them. Code of every version reads these: they only ever get more columns.
create table longshore.migration (
    number          integer primary key,
    name            text    not null,
    checksum        text    not null,
    works_with      integer not null,
    announced_until timestamptz,
    tried_at        timestamptz,
    applied_at      timestamptz
);
comment on column longshore.migration.works_with is
    'the lowest level of code that may work with it: the newest migration such code knows';
comment on column longshore.migration.announced_until is
    'until then code below that level has to leave, though nothing is applied yet';
create table longshore.session_level (
    token bigint  primary key,
    level integer not null
)

-- migration_tried: note that someone waited in vain for a lock just now. number
update longshore.migration set tried_at = now() where number = $1

-- migration_withdraw: let everyone work again: what was announced does not come. number
delete from longshore.migration where number = $1 and applied_at is null

-- migrations_applied: what the store remembers, and whether it takes anything new.
-- One row at least, also before the first migration.
select m.number, m.name, m.checksum, m.works_with, m.applied_at is not null as is_applied,
       current_setting('transaction_read_only')::boolean as is_read_only
  from (values (1)) as always
  left join longshore.migration m on m.applied_at is not null or m.announced_until > now()

-- clock: the time now. clock
select longshore.clock($1)

-- commit_unsynced: let this transaction's commit not wait for the disk.
select set_config('synchronous_commit', 'off', true)

-- lock_patience: wait for locks no longer than this, until the transaction ends. text
select set_config('lock_timeout', $1, true)

-- store: what tells this store, in this era, from all others.
select longshore.this_store()

-- wake: tell whoever waits for work to look.
select pg_notify('longshore', '')

-- losses: how many workers vanished with jobs, with how many jobs, and the time.
-- names of both totals, clock
select coalesce((select t.number from longshore.total t where t.name = $1), 0) as workers,
       coalesce((select t.number from longshore.total t where t.name = $2), 0) as jobs,
       longshore.clock($3) as now

-- losses_add: a worker vanished that held jobs. names of both totals, jobs
insert into longshore.total as t (name, number) values ($1, 1), ($2, $3)
    on conflict (name) do update set number = t.number + excluded.number

-- doubted: the session that answers, and whether another is at work or was just now; null if there
-- is no such session. Who may not see what it does is told that it works. process id,
-- seconds that are just now
select pg_backend_pid(), (
    select coalesce(a.state not like 'idle%', true)
           or a.state_change > clock_timestamp() - make_interval(secs => $2)
      from pg_stat_activity a where a.pid = $1)
