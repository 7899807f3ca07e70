-- The outbox: events that were stored with what they tell of, and who reads them.

-- A batch of events, one row per transaction. Transactions commit in another order than they take
-- numbers, so a reader gives positions to what it sees: what commits later comes later.
create table longshore.outbox (
    number   bigint generated always as identity primary key,
    at       bigint not null,
    body     bytea  not null,
    position bigint
) with (fillfactor = 90, autovacuum_vacuum_insert_scale_factor = 0.5);
alter table longshore.outbox
    alter column body set storage external,
    alter column body set statistics 0;
create index outbox_fresh on longshore.outbox (number) where position is null;
create unique index outbox_order on longshore.outbox (position) where position is not null;
create index outbox_age on longshore.outbox (at);

-- Who reads the outbox, and how far each has come. A consumer's cursor has one holder at a time:
-- `token` grows with each. `gone_at` is set when nobody has read for it in so long that nothing is
-- kept for it any more.
create table longshore.consumer (
    name         text collate "C" primary key,
    position     bigint not null default 0,
    token        bigint not null default 0,
    holder       text   not null default '',
    lease        bigint not null default 0,
    leased_until bigint not null default 0,
    seen_at      bigint not null,
    gone_at      bigint
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Give positions to up to p_limit rows of the outbox that have none, in this era. One reader at a
-- time, and each looks after the one before has committed: what is seen later comes later.
create function longshore.stamp(p_limit integer) returns void language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
    set enable_hashjoin = off set enable_mergejoin = off
    set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from longshore.outbox o where o.position is null) then
        perform longshore.this_era();
        perform pg_advisory_xact_lock(7813585269108010868);
        with fresh as materialized (
            select o.number from longshore.outbox o where o.position is null
             order by o.number limit p_limit
        ), placed as materialized (
            select f.number, nextval('longshore.outbox_position') as position from fresh f
        )
        update longshore.outbox o set position = p.position from placed p
         where o.number = p.number;
    end if;
end
$$;

-- Up to p_limit batches behind a position; rows without a position are given theirs before.
create function longshore.events(p_after bigint, p_limit integer)
returns table (place bigint, told_at bigint, groups bytea) language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform longshore.stamp(p_limit);
    return query
    select o.position, o.at, o.body from longshore.outbox o
     where o.position is not null and o.position > p_after
     order by o.position limit p_limit;
end
$$;

-- Take a consumer's cursor, unless another has it. A lease that begins in the future was given
-- before the clock was set back: it is over. No history of the store gave out the token before.
create function longshore.take_cursor(
    p_clock bigint, p_name text, p_holder text, p_lease bigint
) returns table (token bigint, "position" bigint, gone_at bigint) language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_known longshore.consumer;
    v_now   bigint;
begin
    insert into longshore.consumer (name, seen_at) values (p_name, longshore.clock(p_clock))
        on conflict do nothing;
    select c.* into strict v_known from longshore.consumer c where c.name = p_name for update;
    v_now := longshore.clock(p_clock);
    if v_known.holder not in ('', p_holder)
       and v_now < v_known.leased_until and v_now >= v_known.leased_until - v_known.lease then
        return;
    end if;
    return query
    update longshore.consumer c
       set token = greatest(v_known.token + 1, longshore.new_number()), holder = p_holder, lease = p_lease,
           leased_until = v_now + p_lease, seen_at = v_now, gone_at = null
     where c.name = p_name
    returning c.token, c.position, v_known.gone_at;
end
$$;

-- Whether a cursor is still its holder's. Its lease is extended when a third of it is over.
create function longshore.hold_cursor(p_clock bigint, p_name text, p_token bigint)
returns boolean language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_known longshore.consumer;
    v_now   bigint := longshore.clock(p_clock);
begin
    select c.* into v_known from longshore.consumer c
     where c.name = p_name and c.token = p_token;
    if not found or v_known.holder = '' then
        return false;
    end if;
    if v_known.leased_until - v_now between v_known.lease * 2 / 3 and v_known.lease then
        return true;
    end if;
    update longshore.consumer c
       set leased_until = v_now + c.lease, seen_at = v_now, gone_at = null
     where c.name = p_name and c.token = p_token and c.holder <> '';
    return found;
end
$$;

-- Batches behind a position, for the holder of a cursor; one row of nulls for anyone else.
create function longshore.unread(
    p_clock bigint, p_name text, p_token bigint, p_after bigint, p_limit integer
) returns table (place bigint, told_at bigint, groups bytea) language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if longshore.hold_cursor(p_clock, p_name, p_token) then
        return query select e.place, e.told_at, e.groups
                       from longshore.events(p_after, p_limit) e;
    else
        return query select null::bigint, null::bigint, null::bytea;
    end if;
end
$$;

-- Move a cursor on; false when it is another's.
create function longshore.advance(
    p_clock bigint, p_name text, p_token bigint, p_position bigint
) returns boolean language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_now bigint := longshore.clock(p_clock);
begin
    update longshore.consumer c
       set position = greatest(c.position, p_position), leased_until = v_now + c.lease,
           seen_at = v_now, gone_at = null
     where c.name = p_name and c.token = p_token and c.holder <> '';
    return found;
end
$$;

-- How consumers stand. What is behind is counted by numbers, of which few are missing: reading
-- it would take longer the more it is. Positions that an era left out are behind nobody.
create function longshore.consumers(p_clock bigint)
returns table (
    name text, "position" bigint, behind bigint, waits_since bigint, holder text,
    seen_at bigint, gone_at bigint
) language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_last  bigint;
    v_fresh bigint;
    v_since bigint;
begin
    select max(o.position) into v_last from longshore.outbox o where o.position is not null;
    select o.number, o.at into v_fresh, v_since from longshore.outbox o
     where o.position is null order by o.number limit 1;
    if found then
        select o.number - v_fresh + 1 into v_fresh from longshore.outbox o
         where o.position is null order by o.number desc limit 1;
    end if;
    return query
    select c.name, c.position,
           greatest(coalesce(v_last, 0) - b.done, 0) - b.skipped + coalesce(v_fresh, 0),
           coalesce(f.at, v_since),
           case when c.leased_until > longshore.clock(p_clock) then nullif(c.holder, '') end,
           c.seen_at, c.gone_at
      from longshore.consumer c
      left join lateral (
           select o.position as first, o.at from longshore.outbox o
            where o.position is not null and o.position > c.position
            order by o.position limit 1) f on true
     cross join lateral (
           select p.done,
                  coalesce((select sum(greatest(least(e.first_position, v_last)
                                                - greatest(e.last_position, p.done), 0))
                              from longshore.era_start e where e.ordinal > 1), 0)::bigint
                      as skipped
             from (select greatest(c.position, f.first - 1) as done) p) b
     order by c.name;
end
$$;
