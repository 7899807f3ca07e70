-- The schema of a new store on PostgreSQL: all files of this folder, in the order of their names,
-- are one migration, applied in one transaction.
--
-- Times are microseconds since 1970. "core.x" is the Python module longshore.core.x, which has
-- the rule that a statement applies.
--
-- Functions in PL/pgSQL name the search_path they run with: a name without a schema is looked up
-- along the path of whoever calls, and an exact match in `public` beats a general one in
-- pg_catalog, so whoever may create there could have a function of their own run with the rights
-- of a worker. Functions in SQL could no longer be inlined with that; their bodies are
-- `begin atomic`, which the server parses here, once, with this path.
-- `set enable_… = off` pins plans: a statement that was planned while its table was empty would
-- sort all of it later on. `offset 0` keeps a look-up by key apart for the same reason: joined to
-- a table that was empty, it would read all of an index later on.
-- tests/engines/postgres/test_postgres_plans.py looks at what this leads to.

set local search_path = pg_catalog, pg_temp;

-- The store: its clock, its eras, and numbers that are never given out twice.

-- The time: p_now where a caller brings a clock of its own, as tests do, else the server's.
create function longshore.clock(p_now bigint) returns bigint language sql volatile
begin atomic
    select coalesce(p_now, (extract(epoch from clock_timestamp()) * 1000000)::bigint);
end;

-- Numbers that only grow: how many workers vanished, and how many jobs of a queue were pruned.
create table longshore.total (
    name   text collate "C" primary key,
    number bigint not null
);

-- An era lasts from one start of the server, or one copy of the store, to the next. A standby
-- that takes over, a recovery to a point in time and a restored dump all take the store back to an
-- earlier moment, and its sequences with it, while workers, consumers and remote callers still
-- know the numbers that were given out since. So numbers carry the clock and the era.
-- Decision 0059 has the reasons.
-- A claim of a session that waited need not wait for the disk: what a crash of the server takes
-- back is claimed again by the session that heard of it, before anyone else may claim.
-- Decision 0025 has the reasons; tests/engines/postgres/test_postgres_lost_claims.py the proof.

-- The era that was begun last; one row at most. The table is unlogged: a crash, a promotion and a
-- recovery to a point in time empty it. An orderly restart does not, so the row names the server's
-- start; a restored dump has another table, so it names that too.
create unlogged table longshore.era_row (
    is_only      boolean primary key default true check (is_only),
    number       bigint  not null,
    is_clear     boolean not null default false,
    server_start timestamptz not null,
    relation     oid     not null
);
comment on column longshore.era_row.is_clear is
    'whether each session that waited before it has been heard of since, or is over';

-- The era that goes on now; no row until it has begun.
create view longshore.era as
    select r.number, r.is_clear from longshore.era_row r
     where r.server_start = pg_postmaster_start_time() and r.relation = r.tableoid;

-- Every era that this store has begun, the slot of its segment numbers, and the event positions
-- that it left out: those behind `last_position`, up to and with `first_position`.
create table longshore.era_start (
    ordinal        bigint primary key,
    at             bigint not null,
    slot           bigint not null,
    last_position  bigint not null,
    first_position bigint not null
);

-- Counters within an era: of segments, of sessions' tokens, of event positions.
create sequence longshore.segment_number;
create sequence longshore.token_number;
create sequence longshore.outbox_position;

-- A number greater than any that this function gave out before in any history of this store, as
-- long as the clock goes on: milliseconds since 2024, and twelve bits by chance. Below 2^53.
create function longshore.new_number() returns bigint language sql volatile
begin atomic
    select ((extract(epoch from clock_timestamp()) * 1000)::bigint - 1704067200000) << 12
           | floor(random() * 4096)::bigint;
end;

-- A new session's token. Grows even if the clock is set back; one is made at a time, or the
-- counter could be taken back by whoever comes late.
create function longshore.new_token() returns bigint language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform pg_advisory_xact_lock(7813585269108010869);
    return setval('longshore.token_number',
                  greatest(nextval('longshore.token_number'), longshore.new_number()));
end
$$;

-- A new segment's number: the minute, the era's slot, and a count of 23 bits. What another
-- history gave out in this minute has another slot, or by chance another count.
create function longshore.new_segment(p_era bigint, p_since bigint) returns bigint
language sql volatile
begin atomic
    select ((p_since / 60000000) << 26) | ((p_era & 7) << 23)
           | (nextval('longshore.segment_number') & 8388607);
end;

-- The number of this era; the first call begins it. Its last three bits are the slot of its
-- segment numbers: another one than that of the era before, which may go on elsewhere. Within it
-- the count begins anywhere, for more than one copy may have the same era before.
-- Positions of events go on behind the clock's microseconds: those of another history lie before
-- that, since it gave out fewer than a million a second.
-- Called in short transactions only: who comes second waits for the end of the first.
create function longshore.current_era() returns bigint language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    c_epoch constant bigint := 1704067200000000;
    v_number  bigint;
    v_ordinal bigint;
    v_slot    bigint;
    v_now     bigint;
    v_last    bigint;
    v_first   bigint;
begin
    select e.number into v_number from longshore.era e;
    if found then
        return v_number;
    end if;
    insert into longshore.era_row as r (number, server_start, relation)
    values (0, pg_postmaster_start_time(), 'longshore.era_row'::regclass)
    on conflict (is_only) do update
       set server_start = excluded.server_start, relation = excluded.relation
     where r.server_start <> excluded.server_start or r.relation <> excluded.relation;
    if found then
        select s.ordinal + 1, (s.slot + 1 + floor(random() * 7)::bigint) & 7, s.first_position
          into v_ordinal, v_slot, v_last
          from longshore.era_start s order by s.ordinal desc limit 1;
        if not found then
            v_ordinal := 1;
            v_slot := 0;
        end if;
        -- The last position that anybody got. The sequence is logged ahead of it, and a call
        -- that was rolled back has moved it on.
        v_last := greatest(v_last, 0,
            (select max(o.position) from longshore.outbox o where o.position is not null),
            (select max(c.position) from longshore.consumer c));
        v_now := longshore.clock(null);
        v_first := v_last;
        if v_ordinal > 1 or v_last > 0 then
            v_first := greatest(v_last, v_now - c_epoch,
                                pg_sequence_last_value('longshore.outbox_position'));
            perform setval('longshore.outbox_position', v_first);
            perform setval('longshore.segment_number', 1 + floor(random() * 8388608)::bigint);
        end if;
        insert into longshore.era_start values (v_ordinal, v_now, v_slot, v_last, v_first);
        update longshore.era_row
           set number = floor(random() * (1::bigint << 58))::bigint << 3 | v_slot;
    end if;
    select e.number into v_number from longshore.era e;
    return v_number;
end
$$;

-- The number of this era, for transactions that may last: an era that has not begun is an error,
-- LS004, because it has to be begun in another transaction.
create function longshore.this_era() returns bigint language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_number bigint;
begin
    select e.number into v_number from longshore.era e;
    if not found then
        raise exception 'the era has not begun' using errcode = 'LS004';
    end if;
    return v_number;
end
$$;

-- A text that tells this store, in this era, from all others. A caller's own connection has to
-- lead to the same one.
create function longshore.store() returns text language sql stable
begin atomic
    select d.oid || '/' || n.oid || '/' || extract(epoch from m.applied_at) || '/'
           || coalesce((select e.number from longshore.era e), 0)
      from pg_catalog.pg_database d, pg_catalog.pg_namespace n, longshore.migration m
     where d.datname = current_database() and n.nspname = 'longshore' and m.number = 1;
end;

-- The same text for the engine's own connection: begins the era if need be.
create function longshore.this_store() returns text language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform longshore.current_era();
    return longshore.store();
end
$$;
