-- Who reads the outbox, how far each has come, and what they set aside.
-- longshore: works-with 0008

-- A consumer's cursor has one holder at a time: `token` grows with each. `gone_at` is set when
-- nobody has read for it in so long that nothing is kept for it any more.
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

create table longshore.quarantine (
    number   bigint generated always as identity primary key,
    consumer text   not null,
    event_id text   not null,
    name     text   not null,
    job_id   bytea  not null,
    reason   text   not null,
    body     bytea  not null,
    at       bigint not null
);
create index quarantine_age on longshore.quarantine (at);
alter table longshore.quarantine alter column body set statistics 0;
alter table longshore.quarantine alter column job_id set statistics 0;

-- What is shipped is told by cursors, and not row by row.
drop function longshore.unpublished(integer);
drop function longshore.published(bigint, bigint[]);
drop index longshore.outbox_unpublished;
drop index longshore.outbox_shipped;
alter table longshore.outbox drop column published_at;

-- Take a consumer's cursor, unless another has it. A lease that begins in the future was given
-- before the clock was set back: it is over.
create function longshore.take_cursor(
    p_clock bigint, p_name text, p_holder text, p_lease bigint
) returns table (token bigint, "position" bigint, gone_at bigint) language plpgsql as $$
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
       set token = v_known.token + 1, holder = p_holder, lease = p_lease,
           leased_until = v_now + p_lease, seen_at = v_now, gone_at = null
     where c.name = p_name
    returning c.token, c.position, v_known.gone_at;
end
$$;

-- Whether a cursor is still its holder's. Its lease is extended when a third of it is over.
create function longshore.hold_cursor(p_clock bigint, p_name text, p_token bigint)
returns boolean language plpgsql as $$
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
) returns table (place bigint, told_at bigint, groups bytea) language plpgsql as $$
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
) returns boolean language plpgsql as $$
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
-- it would take longer the more it is.
create function longshore.consumers(p_clock bigint)
returns table (
    name text, "position" bigint, behind bigint, waits_since bigint, holder text,
    seen_at bigint, gone_at bigint
) language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
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
           greatest(coalesce(v_last, 0) - greatest(c.position, f.first - 1), 0)
               + coalesce(v_fresh, 0),
           coalesce(f.at, v_since),
           case when c.leased_until > longshore.clock(p_clock) then nullif(c.holder, '') end,
           c.seen_at, c.gone_at
      from longshore.consumer c
      left join lateral (
           select o.position as first, o.at from longshore.outbox o
            where o.position is not null and o.position > c.position
            order by o.position limit 1) f on true
     order by c.name;
end
$$;

-- Delete up to p_limit idempotency keys, events and firings that are old enough. Of the events
-- only those that every consumer has passed, if there are any. What others hold is left for the
-- next time.
create or replace function longshore.prune_old(
    p_keys bigint, p_events bigint, p_firings bigint, p_limit integer
) returns integer language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
declare
    v_left  integer := p_limit;
    v_count integer;
    v_floor bigint;
begin
    delete from longshore.idempotency k where k.ctid = any (array(
        select x.ctid from longshore.idempotency x where x.created_at <= p_keys
         order by x.created_at limit v_left for update skip locked));
    get diagnostics v_count = row_count;
    v_left := v_left - v_count;
    select min(c.position) into v_floor from longshore.consumer c where c.gone_at is null;
    if v_floor is not null then
        -- Positions go by age, but for what took long to commit: no more is looked at than may
        -- be deleted.
        select max(y.position) into v_floor from (
            select x.position, x.at from longshore.outbox x
             where x.position is not null and x.position <= v_floor
             order by x.position limit v_left) y
         where y.at <= p_events;
        delete from longshore.outbox o where o.ctid = any (array(
            select x.ctid from longshore.outbox x
             where x.position is not null and x.position <= v_floor and x.at <= p_events
             order by x.position limit v_left for update skip locked));
    else
        delete from longshore.outbox o where o.ctid = any (array(
            select x.ctid from longshore.outbox x where x.at <= p_events
             order by x.at limit v_left for update skip locked));
    end if;
    get diagnostics v_count = row_count;
    v_left := v_left - v_count;
    delete from longshore.firing f where f.ctid = any (array(
        select x.ctid from longshore.firing x where x.due <= p_firings
         order by x.due limit v_left for update skip locked));
    get diagnostics v_count = row_count;
    return p_limit - v_left + v_count;
end
$$;
