-- No number is given out twice, whatever history of the store went before.
-- longshore: works-with 0021
--
-- A standby that takes over, a recovery to a point in time and a restored dump all take the store
-- back to an earlier moment, and its sequences with it. Workers, consumers and remote callers that
-- lived through it still know the numbers that were given out since. So numbers carry what tells
-- one history from another: the clock, and the era. Decision 0059 has the reasons.

-- From one start of the server, or one copy of the store, to the next. The table is unlogged: a
-- crash, a promotion and a recovery to a point in time empty it. An orderly restart does not, so
-- the row names the server's start; a restored dump has another table, so it names that too.
drop table longshore.era;
create unlogged table longshore.era_row (
    is_only      boolean primary key default true check (is_only),
    number       bigint  not null,
    is_clear     boolean not null default false,
    server_start timestamptz not null,
    relation     oid     not null
);
comment on column longshore.era_row.is_clear is
    'whether each session that waited before it has been heard of since, or is over';
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

-- Greater than any number that any history of this store was given by this function before, as
-- long as the clock goes on: milliseconds since 2024, and twelve bits by chance. Below 2^53.
create function longshore.new_number() returns bigint language sql volatile as $$
    select ((extract(epoch from clock_timestamp()) * 1000)::bigint - 1704067200000) << 12
           | floor(random() * 4096)::bigint
$$;

-- A session's token. Grows even if the clock is set back; one is made at a time, or the counter
-- could be taken back by whoever comes late.
create function longshore.new_token() returns bigint language plpgsql as $$
begin
    perform pg_advisory_xact_lock(7813585269108010869);
    return setval('longshore.token_number',
                  greatest(nextval('longshore.token_number'), longshore.new_number()));
end
$$;

-- The number of this era, which begins with the first call of it. Its last three bits are the slot
-- of its segment numbers: another one than that of the era before, which may go on elsewhere.
-- Within it the count begins anywhere, for more than one copy may have the same era before.
-- Positions of events go on behind the clock's microseconds: those of
-- another history lie before that, since it gave out fewer than a million a second.
-- Called in short transactions only: who comes second waits for the end of the first.
create or replace function longshore.current_era() returns bigint language plpgsql as $$
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

-- The number of this era, for transactions that may last: if nobody has begun it, that has to be
-- done in another one.
create function longshore.this_era() returns bigint language plpgsql stable as $$
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

-- What a live session has to know to go on in this era: see 0004. It may be part of a transaction
-- that lasts, so the era is begun in another one.
create or replace function longshore.check_in(
    p_token bigint, p_now bigint, p_era bigint, out era bigint, out last bigint
) returns setof record language plpgsql
    set enable_seqscan = off
as $$
begin
    perform from longshore.session s
      where s.token = p_token and s.expires_at > longshore.clock(p_now) for no key update;
    if found then
        era := longshore.this_era();
        select max(e.number) into last from longshore.exchanged e where e.token = p_token;
        if era is distinct from p_era then
            delete from longshore.waiting w where w.token = p_token;
        end if;
        return next;
    end if;
end
$$;

-- A segment's number: the minute, the era's slot, and a count of 23 bits. What another history
-- gave out in this minute has another slot, or by chance another count.
create function longshore.new_segment(p_era bigint, p_since bigint) returns bigint
language sql volatile as $$
    select ((p_since / 60000000) << 26) | ((p_era & 7) << 23)
           | (nextval('longshore.segment_number') & 8388607)
$$;

-- Tells this store, in this era, from all others. A caller's own connection has to lead to it.
create or replace function longshore.store() returns text language sql stable as $$
    select d.oid || '/' || n.oid || '/' || extract(epoch from m.applied_at) || '/'
           || coalesce((select e.number from longshore.era e), 0)
      from pg_catalog.pg_database d, pg_catalog.pg_namespace n, longshore.migration m
     where d.datname = current_database() and n.nspname = 'longshore' and m.number = 1
$$;

-- The same, for the engine's own connection: begins the era if need be.
create function longshore.this_store() returns text language plpgsql as $$
begin
    perform longshore.current_era();
    return longshore.store();
end
$$;

-- Store segments with their ready and scheduled spans: see 0002. Their numbers are of this era.
create or replace function longshore.submit(
    p_now bigint, p_arrival bigint,
    g_queue text[], g_type text[], g_tenant text[], g_priority smallint[],
    g_max_attempts integer[], g_timeout bigint[], g_from integer[], g_to integer[],
    g_weight integer[], g_ids bytea[], g_keys text[], g_attributes text[],
    s_group integer[], s_lo smallint[], s_hi smallint[], s_run_at bigint[], s_delay bigint[],
    s_queue text[], s_type text[], s_types text[], g_payloads bytea[], p_bounds integer[],
    p_types text[], p_tenants text[], p_body bytea, p_wakes boolean
) returns bigint[] language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
    c_epoch constant bigint := 1704067200000000;
    c_band  constant bigint := 1::bigint << 51;
    v_now      bigint := longshore.clock(p_now);
    v_arrival  bigint := coalesce(p_arrival, longshore.arrival(v_now));
    v_era      bigint := longshore.this_era();
    v_since    bigint;
    v_segments bigint[] := '{}';
    v_count    integer;
    v_ordered  text[];
    v_agings   bigint[];
    v_fair     boolean[];
begin
    v_since := least(greatest(v_arrival - c_epoch, 0), c_band - 1);
    select array_agg(f.queue), array_agg(longshore.aging_of(f.settings)),
           array_agg(f.settings ->> 'order' = 'fair')
      into v_ordered, v_agings, v_fair
      from longshore.flow f where f.queue = any (g_queue) and f.settings ? 'order';
    select array_agg(longshore.new_segment(v_era, v_since))
      into v_segments from generate_series(1, cardinality(g_queue));

    -- A known id ends it here, by the primary key: `on conflict` would write twice as much.
    -- A bytea array is walked from its beginning for every element: hence unnest.
    insert into longshore.locator (id, segment, ordinal)
    select encode(substring(t.ids from i * 16 + 1 for 16), 'hex')::uuid, t.segment, i
      from unnest(v_segments, g_ids, g_from, g_to) as t (segment, ids, start, stop),
           generate_series(0, t.stop - t.start - 1) i;

    insert into longshore.segment
    select t.segment, t.queue, t.type, t.tenant, t.priority, t.max_attempts, t.timeout,
           v_arrival, t.stop - t.start, t.weight, t.ids, t.payloads,
           p_bounds[t.start + t.place : t.stop + t.place],
           case when t.type = '' then p_types[t.start + 1 : t.stop] end,
           case when t.tenant = '' then p_tenants[t.start + 1 : t.stop] end,
           t.keys::jsonb, t.attributes::jsonb
      from unnest(v_segments, g_queue, g_type, g_tenant, g_priority, g_max_attempts,
                  g_timeout, g_weight, g_ids, g_payloads, g_from, g_to, g_keys, g_attributes)
           with ordinality
           as t (segment, queue, type, tenant, priority, max_attempts, timeout, weight,
                 ids, payloads, start, stop, keys, attributes, place);

    with span as materialized (
        select v_segments[s.g] as segment, s.lo, s.hi, g_weight[s.g] as weight, s.queue, s.type,
               s.types::text[] as types, g_priority[s.g]::bigint << 52 as urgency,
               coalesce(s.run_at, v_now + s.delay) as due,
               v_agings[array_position(v_ordered, s.queue)] as aging,
               case when v_fair[array_position(v_ordered, s.queue)] then g_tenant[s.g]
                    else '' end as lane
          from unnest(s_group, s_lo, s_hi, s_run_at, s_delay, s_queue, s_type, s_types)
               as s (g, lo, hi, run_at, delay, queue, type, types)
    ), later as (
        insert into longshore.scheduled
            (run_at, segment, lo, hi, size, weight, queue, type, types, rank)
        select due, segment, lo, hi, hi - lo, weight, queue, type, types,
               coalesce(longshore.aged(urgency >> 52, due - c_epoch, aging),
                        urgency + least(greatest(due - c_epoch, 0), c_band - 1))
          from span where due > v_now
    )
    insert into longshore.ready
        (queue, type, types, rank, segment, lo, hi, size, weight, run_at, lane)
    select queue, type, types,
           coalesce(longshore.aged(urgency >> 52, v_arrival - c_epoch, aging),
                    urgency + c_band + v_since),
           segment, lo, hi, hi - lo, weight, v_arrival, lane
      from span where due <= v_now;
    get diagnostics v_count = row_count;
    if true = any (v_fair) and v_count > 0 then
        perform longshore.arrange(v_segments);
    end if;

    if p_body is not null then
        insert into longshore.outbox (at, body) values (v_now, p_body);
    end if;
    if v_count > 0 and (p_wakes or exists (select from longshore.waiting)) then
        perform pg_notify('longshore', '');
    end if;
    return array[v_now, v_arrival];
end
$$;

-- The same for one job.
create or replace function longshore.submit_one(
    p_now bigint, p_queue text, p_type text, p_tenant text, p_priority smallint,
    p_max_attempts integer, p_timeout bigint, p_run_at bigint, p_delay bigint, p_id bytea,
    p_payload bytea, p_keys jsonb, p_attributes jsonb, p_body bytea
) returns bigint[] language plpgsql
    set enable_seqscan = off
as $$
declare
    c_epoch constant bigint := 1704067200000000;
    c_band  constant bigint := 1::bigint << 51;
    v_now     bigint := longshore.clock(p_now);
    v_due     bigint := coalesce(p_run_at, v_now + p_delay);
    v_urgency bigint := p_priority::bigint << 52;
    v_weight  integer := length(p_payload);
    v_arrival bigint := longshore.arrival(v_now);
    v_era     bigint := longshore.this_era();
    v_since   bigint;
    v_segment bigint;
    v_aging   bigint;
    v_lane    text := '';
begin
    v_since := least(greatest(v_arrival - c_epoch, 0), c_band - 1);
    select longshore.aging_of(f.settings),
           case when f.settings ->> 'order' = 'fair' then p_tenant else '' end
      into v_aging, v_lane
      from longshore.flow f where f.queue = p_queue and f.settings ? 'order';
    v_segment := longshore.new_segment(v_era, v_since);
    if v_due > v_now then
        insert into longshore.scheduled
            (run_at, segment, lo, hi, size, weight, queue, type, rank)
        values (v_due, v_segment, 0, 1, 1, v_weight, p_queue, p_type,
                coalesce(longshore.aged(p_priority, v_due - c_epoch, v_aging),
                         v_urgency + least(greatest(v_due - c_epoch, 0), c_band - 1)));
    else
        insert into longshore.ready
            (queue, type, rank, segment, lo, hi, size, weight, run_at, lane)
        values (p_queue, p_type,
                coalesce(longshore.aged(p_priority, v_arrival - c_epoch, v_aging),
                         v_urgency + c_band + v_since),
                v_segment, 0, 1, 1, v_weight, v_arrival, coalesce(v_lane, ''));
    end if;
    with place as (
        insert into longshore.locator (id, segment, ordinal)
        values (encode(p_id, 'hex')::uuid, v_segment, 0)
    ), told as (
        insert into longshore.outbox (at, body) values (v_now, p_body)
    )
    insert into longshore.segment
        (segment, queue, type, tenant, priority, max_attempts, timeout, created_at, size,
         weight, ids, payloads, bounds, keys, attributes)
    values (v_segment, p_queue, p_type, p_tenant, p_priority, p_max_attempts, p_timeout,
            v_arrival, 1, v_weight, p_id, p_payload, array[0, v_weight], p_keys, p_attributes);
    if v_due <= v_now and exists (select from longshore.waiting) then
        perform pg_notify('longshore', '');
    end if;
    return array[v_now, v_arrival];
end
$$;

-- Give positions to rows of the outbox that have none: see 0007. They are of this era.
create or replace function longshore.stamp(p_limit integer) returns void language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
    set enable_hashjoin = off set enable_mergejoin = off
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

-- Take a consumer's cursor: see 0015. No history gave out its token before.
create or replace function longshore.take_cursor(
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
       set token = greatest(v_known.token + 1, longshore.new_number()), holder = p_holder, lease = p_lease,
           leased_until = v_now + p_lease, seen_at = v_now, gone_at = null
     where c.name = p_name
    returning c.token, c.position, v_known.gone_at;
end
$$;

-- How consumers stand: see 0015. Positions that an era left out are behind nobody.
create or replace function longshore.consumers(p_clock bigint)
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

select longshore.current_era();
