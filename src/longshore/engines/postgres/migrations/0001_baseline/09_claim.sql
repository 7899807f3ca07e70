-- Claim: hand ready jobs to a session.

-- Where claims begin to look, while an old snapshot keeps the server from forgetting what was
-- claimed before: see longshore.look_ahead. Of a queue and a type, ranks from `low` up to and
-- without `high`, until `all_at`; empty as long as claims are quick.
-- Notes of a queue are made, changed and forgotten all together or not at all: some of them
-- alone would hide what the others told of. So whoever changes any holds a lock of the queue
-- first, until its transaction ends, and who does not get it leaves the notes alone. Nobody waits.
-- At worst jobs that come back with an older rank are then found when the notes are old.
create table longshore.horizon (
    queue  text collate "C" not null,
    type   text collate "C" not null,
    low    bigint not null,
    high   bigint not null,
    all_at timestamptz not null,
    primary key (queue, type, high)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- The types of which a queue has ready spans that a session may take (null: any session); an
-- empty one stands for spans of several.
create function longshore.lanes(p_queue text, p_types text[]) returns text[]
language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        with recursive present (type) as (
            (select r.type from longshore.ready r where r.queue = p_queue
              order by r.type limit 1)
            union all
            select (select r.type from longshore.ready r
                     where r.queue = p_queue and r.type > p.type order by r.type limit 1)
              from present p where p.type is not null
        )
        select array_agg(p.type) from present p
         where p.type is not null
           and (p_types is null or p.type = '' or p.type = any (p_types)));
end
$$;

-- Whether a queue has jobs that someone who serves these types might be handed.
create function longshore.has_ready(p_queue text, p_types text[]) returns boolean
language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_types constant text[] := array(
        select t.type from unnest(p_types) as t (type)
         where not exists (select from longshore.pause x
                            where x.queue in (p_queue, '') and x.type = t.type));
begin
    return exists (
        select from unnest(longshore.lanes(p_queue, v_types)) as l (type)
         where l.type <> '' or exists (
               select from longshore.ready r
                where r.queue = p_queue and r.type = '' and r.types && v_types));
end
$$;

-- Part ready spans of several types by type: a claim may take some of them and not others.
-- Returns how many were parted; what others hold is left alone.
create function longshore.part(p_spans tid[]) returns integer language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_span  record;
    v_count integer := 0;
begin
    for v_span in
        select r.*, r.ctid as tid from longshore.ready r
         where r.ctid = any (p_spans) for update skip locked
    loop
        delete from longshore.ready r where r.ctid = v_span.tid;
        insert into longshore.ready
            (queue, type, rank, segment, lo, hi, size, weight, mask, run_at, delivery, attempt,
             failures, crashes, lapses, is_replayed, lane)
        select v_span.queue, g.type, v_span.rank, v_span.segment, g.lo, g.hi, g.size,
               v_span.weight,
               case when g.size < g.hi - g.lo then longshore.mask(g.ordinals, g.hi) end,
               v_span.run_at, v_span.delivery, v_span.attempt, v_span.failures,
               v_span.crashes, v_span.lapses, v_span.is_replayed, v_span.lane
          from (select t.type, min(o.ordinal) as lo, max(o.ordinal) + 1 as hi,
                       count(*) as size, array_agg(o.ordinal) as ordinals
                  from longshore.segment s
                 cross join lateral unnest(s.types) with ordinality as t (type, place)
                 cross join lateral (select t.place::integer - 1 as ordinal) o
                 where s.segment = v_span.segment
                   and o.ordinal >= v_span.lo and o.ordinal < v_span.hi
                   and longshore.has(v_span.mask, o.ordinal)
                 group by t.type) g;
        v_count := v_count + 1;
    end loop;
    return v_count;
end
$$;

-- Take the lock that whoever changes the notes of a queue holds; false if someone else has it.
create function longshore.hold_horizon(p_queue text) returns boolean
language sql volatile
begin atomic
    select pg_try_advisory_xact_lock(1819240050, hashtext(p_queue));
end;

-- Delete the notes of a queue, and all that are old.
create function longshore.forget_horizon(p_queue text) returns void language plpgsql
    set enable_seqscan = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue text;
begin
    for v_queue in
        select distinct h.queue from longshore.horizon h
         where h.queue = p_queue or h.all_at <= clock_timestamp()
    loop
        if longshore.hold_horizon(v_queue) then
            -- Another may have noted this queue again before it was held.
            delete from longshore.horizon h
             where h.queue = v_queue
               and (h.queue = p_queue or h.all_at <= clock_timestamp());
        end if;
    end loop;
end
$$;

-- Those of p_types that take long to look for from the beginning.
create function longshore.long_lanes(p_queue text, p_types text[]) returns text[]
language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    c_long  constant interval := '0.3 milliseconds';
    v_type  text;
    v_began timestamptz;
    v_long  text[] := '{}';
begin
    foreach v_type in array p_types loop
        v_began := clock_timestamp();
        perform from longshore.ready r where r.queue = p_queue and r.type = v_type
          order by r.rank limit 1;
        if clock_timestamp() - v_began > c_long then
            v_long := v_long || v_type;
        end if;
    end loop;
    return v_long;
end
$$;

-- Note where the first job of these types is, for each priority.
create function longshore.note_horizon(
    p_queue text, p_types text[], p_now bigint, p_until timestamptz
) returns void language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    c_second constant bigint := 1000000;
    c_band   constant bigint := 1::bigint << 51;
    v_since  constant bigint := least(greatest(p_now - 1704067200000000, 0), c_band - 1);
begin
    insert into longshore.horizon
    select p_queue, t.type,
           greatest(b.band * c_band,
                    coalesce(f.rank, b.band * c_band + v_since) - 2 * c_second),
           (b.band + 1) * c_band, p_until
      from unnest(p_types) as t (type)
     cross join generate_series(2, 19) as b (band)
      left join lateral (
           select r.rank from longshore.ready r
            where r.queue = p_queue and r.type = t.type
              and r.rank >= b.band * c_band and r.rank < (b.band + 1) * c_band
            order by r.rank limit 1) f on true;
end
$$;

-- Note, after a claim that took long, where the next one begins to look. Jobs that are claimed
-- leave the front of the index by rank. While an old snapshot is open their entries stay there,
-- and every claim would pass over all of them: 30 ms for a hundred thousand. So a claim that took
-- long notes, for types of its queue and each priority, where the first job is, and claims begin
-- there. What comes back with an older rank, such as a retry, is found when the notes are old:
-- after five seconds, or twenty times as long as it took. Noted are the types that are there,
-- that took long to look for, and some that were noted before, though there may be nothing of
-- them just now; the others are looked for from the beginning.
create function longshore.look_ahead(
    p_queue text, p_types text[], p_now bigint, p_took interval
) returns void language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    c_second constant bigint := 1000000;
    c_old    constant interval := '10 seconds';
    c_known  constant integer := 16;
    v_moment constant timestamptz := clock_timestamp();
    v_dead   constant bigint := pg_stat_get_dead_tuples('longshore.ready'::regclass);
    v_until  timestamptz;
    v_known  text[] collate "C";
    v_lanes  text[] collate "C";
begin
    -- A machine that has much to do is slow too, and notes would only delay what comes back.
    -- Transactions of other users do not show, unless we may read all statistics.
    if v_dead < 2000 or (v_dead < 100000 and not exists (
           select from pg_stat_activity a
            where a.backend_type = 'client backend' and age(a.backend_xmin) > 2000
              and a.xact_start < v_moment - c_old))
       or not pg_try_advisory_xact_lock(7813585269108010869)
       or not longshore.hold_horizon(p_queue) then
        return;
    end if;
    select h.all_at into v_until from longshore.horizon h
     where h.queue = p_queue and h.all_at > v_moment limit 1;
    if found then
        update longshore.horizon h set low = f.rank - 2 * c_second
          from longshore.horizon k
         cross join lateral (
               select r.rank from longshore.ready r
                where r.queue = k.queue and r.type = k.type
                  and r.rank >= k.low and r.rank < k.high
                order by r.rank limit 1) f
         where k.queue = p_queue and h.queue = k.queue and h.type = k.type
           and h.high = k.high and f.rank > k.low + 2 * c_second;
        v_lanes := array(
            select unnest(p_types)
            except select h.type from longshore.horizon h where h.queue = p_queue);
        perform longshore.note_horizon(
            p_queue, longshore.long_lanes(p_queue, v_lanes), p_now, v_until);
        return;
    end if;
    v_known := array(
        select distinct h.type from longshore.horizon h where h.queue = p_queue
         limit c_known);
    perform longshore.forget_horizon(p_queue);
    v_lanes := array(
        select unnest(longshore.lanes(p_queue, null))
         union select unnest(v_known)
         union select '');
    v_lanes := v_lanes || longshore.long_lanes(p_queue, array(
        select unnest(p_types) except select unnest(v_lanes)));
    perform longshore.note_horizon(
        p_queue, v_lanes, p_now, v_moment + greatest(interval '5 seconds', 20 * p_took));
end
$$;

-- Take a ready span if it is free, is not too long and has no types but these: how many jobs.
create function longshore.claim_whole(
    p_token bigint, p_number bigint, p_part integer, p_span tid, p_types text[], p_want integer
) returns integer language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_size integer;
begin
    with free as materialized (
        select r.ctid as tid from longshore.ready r
         where r.ctid = p_span and r.size <= p_want
           and (r.types is null or r.types <@ p_types)
           for update skip locked
    ), gone as (
        delete from longshore.ready r using free f where r.ctid = f.tid returning r.*
    )
    insert into longshore.claim
        (token, number, part, segment, lo, hi, size, weight, mask, rank, run_at, delivery,
         attempt, failures, crashes, lapses)
    select p_token, p_number, p_part, g.segment, g.lo, g.hi, g.size, g.weight, g.mask, g.rank,
           g.run_at, g.delivery + 1, g.attempt, g.failures, g.crashes, g.lapses
      from gone g
    returning size into v_size;
    return coalesce(v_size, 0);
end
$$;

-- Take the first p_want jobs of a locked ready span that has more; returns what they weigh.
create function longshore.claim_front(
    p_token bigint, p_number bigint, p_part integer, p_span tid, p_want integer
) returns float8 language plpgsql
    set enable_seqscan = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_span  longshore.ready;
    v_front bytea;
    v_at    integer;
    v_taken integer := 0;
begin
    select r.* into v_span from longshore.ready r where r.ctid = p_span;
    if v_span.mask is null then
        v_at := v_span.lo + p_want;
        update longshore.ready r set lo = v_at, size = v_span.size - p_want
         where r.ctid = p_span;
    else
        v_front := v_span.mask;
        v_at := v_span.lo;
        while v_taken < p_want loop
            if get_bit(v_span.mask, v_at) = 1 then
                v_taken := v_taken + 1;
                v_span.mask := set_bit(v_span.mask, v_at, 0);
            end if;
            v_at := v_at + 1;
        end loop;
        for i in v_at .. v_span.hi - 1 loop
            v_front := set_bit(v_front, i, 0);
        end loop;
        update longshore.ready r
           set lo = v_at, size = v_span.size - p_want, mask = v_span.mask
         where r.ctid = p_span;
    end if;
    insert into longshore.claim
        (token, number, part, segment, lo, hi, size, weight, mask, rank, run_at, delivery,
         attempt, failures, crashes, lapses)
    values (p_token, p_number, p_part, v_span.segment, v_span.lo, v_at, p_want, v_span.weight,
            v_front, v_span.rank, v_span.run_at, v_span.delivery + 1, v_span.attempt,
            v_span.failures, v_span.crashes, v_span.lapses);
    return p_want::float8 * v_span.weight;
end
$$;

-- Wait a moment for whoever is taking jobs from a span: they may not take all of them.
create function longshore.await_span(p_span tid) returns boolean language plpgsql
    set lock_timeout = '100ms' set enable_seqscan = off
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform from longshore.ready r where r.ctid = p_span for update;
    return true;
exception when lock_not_available then
    return false;
end
$$;

-- Hand up to p_want jobs to an exchange: queue after queue, by rank inside each, of no queue more
-- than its room (null: any number); in a fair one tenants take turns. Only what is taken is
-- locked; what others hold is passed over. Returns how many, of all and of each queue, and, if
-- there were none, one that someone else was just taking.
create function longshore.claim(
    p_token bigint, p_number bigint, p_now bigint, p_queues text[], p_types text[],
    p_want integer, p_rooms integer[] default null, p_fair text[] default null,
    out taken integer, out missed tid, out takens integer[]
) language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    c_most_bytes constant float8 := 64 << 20;
    c_long       constant interval := '3 milliseconds';
    v_queue  text;
    v_types  text[];
    v_lanes  text[];
    v_lows   bigint[];
    v_highs  bigint[];
    v_began  timestamptz;
    v_mixed  tid[];
    v_spare  integer := p_want;
    v_left   integer;
    v_room   integer;
    v_weight float8 := 0;
    v_part   integer := 0;
    v_limit  integer;
    v_tids   tid[];
    v_whole  tid[];
    v_cut    tid;
    v_taken  integer;
    v_heavy  float8;
    v_rank   bigint;
    v_segment bigint;
    v_hi     integer;
    v_ranks  bigint[];
    v_segments bigint[];
    v_his    smallint[];
    v_reach  integer := 1;
    v_free   record;
    v_turns  record;
begin
    takens := array_fill(0, array[cardinality(p_queues)]);
    for v_place in 1 .. cardinality(p_queues) loop
        v_queue := p_queues[v_place];
        v_left := least(v_spare, p_rooms[v_place]);
        exit when v_spare <= 0 or v_weight >= c_most_bytes;
        continue when v_left <= 0;
        v_room := v_left;
        v_types := p_types;
        if exists (select from longshore.pause x where x.type <> '') then
            v_types := array(
                select t.type from unnest(p_types) as t (type)
                 where not exists (select from longshore.pause x
                                    where x.queue in (v_queue, '') and x.type = t.type));
        end if;
        if v_queue = any (p_fair) then
            select t.* into v_turns
              from longshore.claim_turns(p_token, p_number, v_part, v_queue, v_types, v_left,
                                         c_most_bytes - v_weight) t;
            v_part := v_part + v_turns.parts;
            v_weight := v_weight + v_turns.weight;
            v_spare := v_spare - v_turns.taken;
            takens[v_place] := v_turns.taken;
            missed := coalesce(missed, v_turns.missed);
            continue;
        end if;
        v_began := clock_timestamp();
        perform from longshore.horizon h
          where h.queue = v_queue and h.all_at > v_began limit 1;
        if found then
            -- A type without notes is looked for from the beginning: another worker's may have
            -- none, as long as that is quick.
            select array_agg(t.type), array_agg(h.low), array_agg(h.high)
              into v_lanes, v_lows, v_highs
              from (select '' collate "C" as type union select unnest(v_types)) t
              left join longshore.horizon h
                on h.queue = v_queue and h.type = t.type and h.all_at > v_began;
        else
            v_lanes := longshore.lanes(v_queue, v_types);
            v_lows := null;
            v_highs := null;
        end if;
        if cardinality(v_lanes) = 1 then
            -- A queue that is nearly empty: what there is may be a single span.
            select array_agg(x.tid), max(x.weight) into v_tids, v_heavy from (
                select r.ctid as tid, r.weight from longshore.ready r
                 where r.queue = v_queue and r.type = v_lanes[1]
                 order by r.rank, r.segment, r.hi limit 2) x;
            if cardinality(v_tids) = 1 then
                v_taken := longshore.claim_whole(p_token, p_number, v_part + 1, v_tids[1],
                                                 v_types, v_left);
                if v_taken > 0 then
                    v_part := v_part + 1;
                    v_left := v_left - v_taken;
                    v_weight := v_weight + v_taken * v_heavy;
                    v_lanes := null;
                end if;
            end if;
        end if;
        v_limit := 8;
        v_rank := -1;
        v_segment := -1;
        v_hi := -1;
        while v_lanes is not null loop
            -- The heads of all types, merged. Where a type was cut off at the limit, what comes
            -- behind its last span is not known to be next.
            with head as materialized (
                select t.type, r.tid, r.rank, r.segment, r.hi, r.size, r.weight, r.is_mixed,
                       row_number() over (partition by t.type, t.low
                                          order by r.rank, r.segment, r.hi) as place
                  from unnest(v_lanes, v_lows, v_highs) as t (type, low, high)
                 cross join lateral (select v_rank >= coalesce(t.low, 0) as is_past) w
                 cross join lateral (
                       select x.ctid as tid, x.rank, x.segment, x.hi, x.size, x.weight,
                              t.type = '' and not x.types <@ v_types as is_mixed
                         from longshore.ready x
                        where x.queue = v_queue and x.type = t.type
                          and (x.rank, x.segment, x.hi) > (
                              case when w.is_past then v_rank else coalesce(t.low, -1) end,
                              case when w.is_past then v_segment else -1 end,
                              case when w.is_past then v_hi else -1 end)
                          and x.rank < coalesce(t.high, 9223372036854775807)
                        order by x.rank, x.segment, x.hi limit v_limit) r
            ), bound as materialized (
                select h.rank, h.segment, h.hi from head h where h.place = v_limit
                 order by h.rank, h.segment, h.hi limit 1
            ), sure as materialized (
                select h.*, sum(h.size) over w - h.size as before,
                       sum(h.size::float8 * h.weight) over w
                           - h.size::float8 * h.weight as weight_before
                  from head h
                 where not exists (select from bound)
                    or (h.rank, h.segment, h.hi) <= (select b.rank, b.segment, b.hi from bound b)
                window w as (order by h.rank, h.segment, h.hi rows unbounded preceding)
            )
            -- The window leaves them in order, and so does the aggregate.
            select array_agg(s.tid) filter (where not s.is_mixed), array_agg(s.rank),
                   array_agg(s.segment), array_agg(s.hi),
                   array_agg(s.tid) filter (where s.is_mixed)
              into v_tids, v_ranks, v_segments, v_his, v_mixed
              from sure s
             where s.before < v_left::bigint * v_reach
               and s.weight_before + v_weight < c_most_bytes * v_reach;
            if v_ranks is null then
                -- Someone else may have parted what we saw of several types; a retry finds that.
                if v_left = v_room and v_lows is null and '' = any (v_lanes) then
                    missed := coalesce(missed, '(0,0)');
                end if;
                exit;
            end if;
            if v_mixed is not null and longshore.part(v_mixed) > 0 then
                -- Their parts may end before the last span of the same segment that was passed.
                v_hi := -1;
                -- They may stand before where the notes of their types begin.
                perform longshore.forget_horizon(v_queue);
                v_lanes := longshore.lanes(v_queue, v_types);
                v_lows := null;
                v_highs := null;
                exit when v_lanes is null;
                continue;
            end if;
            -- Someone else is just taking these, or parting them: some may be for us.
            missed := coalesce(missed, v_mixed[1]);
            v_rank := v_ranks[cardinality(v_ranks)];
            v_segment := v_segments[cardinality(v_segments)];
            v_hi := v_his[cardinality(v_his)];
            continue when v_tids is null;

            if v_reach > 1 then
                -- Many others are at work on the spans in front: take the first that is free.
                select x.ctid as tid, x.rank, x.segment, x.hi, x.size, x.weight into v_free
                  from unnest(v_tids) with ordinality as t (tid, place)
                  join longshore.ready x on x.ctid = t.tid
                 order by t.place limit 1 for update of x skip locked;
                continue when not found;
                v_reach := 1;
                v_tids := array[v_free.tid];
                v_rank := v_free.rank;
                v_segment := v_free.segment;
                v_hi := v_free.hi;
            end if;
            with locked as materialized (
                select x.ctid as tid, x.rank, x.segment, x.hi, x.size, x.weight
                  from longshore.ready x where x.ctid = any (v_tids)
                   for update skip locked
            ), counted as (
                select l.*, sum(l.size) over (order by l.rank, l.segment, l.hi
                                              rows unbounded preceding) as total
                  from locked l
            )
            select array_agg(c.tid) filter (where c.total <= v_left),
                   (array_agg(c.tid) filter (where c.total > v_left
                                               and c.total - c.size < v_left))[1],
                   coalesce(sum(c.size) filter (where c.total <= v_left), 0),
                   coalesce(sum(c.size::float8 * c.weight) filter (where c.total <= v_left), 0)
              into v_whole, v_cut, v_taken, v_heavy
              from counted c;
            if v_whole is null and v_cut is null then
                missed := v_tids[1];
                v_reach := 64;
                v_limit := greatest(v_limit, 64);
            end if;

            if v_whole is not null then
                with gone as (
                    delete from longshore.ready r where r.ctid = any (v_whole)
                    returning r.*
                )
                insert into longshore.claim
                    (token, number, part, segment, lo, hi, size, weight, mask, rank, run_at,
                     delivery, attempt, failures, crashes, lapses)
                select p_token, p_number,
                       v_part + row_number() over (order by g.rank, g.segment, g.hi),
                       g.segment, g.lo, g.hi, g.size, g.weight, g.mask, g.rank, g.run_at,
                       g.delivery + 1, g.attempt, g.failures, g.crashes, g.lapses
                  from gone g;
                v_part := v_part + cardinality(v_whole);
                v_left := v_left - v_taken;
                v_weight := v_weight + v_heavy;
            end if;
            if v_cut is not null and v_left > 0 then
                v_part := v_part + 1;
                v_weight := v_weight
                    + longshore.claim_front(p_token, p_number, v_part, v_cut, v_left);
                v_left := 0;
            end if;
            exit when v_left <= 0 or v_weight >= c_most_bytes;
            -- As many of each type as the rest will need, if its spans are as long as these.
            v_limit := case when v_part = 0 then v_limit * 2 else 8 +
                v_left::bigint * v_part * 3
                    / (2 * (p_want - v_spare + v_room - v_left) * cardinality(v_lanes)) end;
            v_limit := least(v_limit, 2048);
        end loop;
        takens[v_place] := v_room - v_left;
        v_spare := v_spare - (v_room - v_left);
        if clock_timestamp() - v_began > c_long then
            perform longshore.look_ahead(v_queue, v_types, p_now,
                                             clock_timestamp() - v_began);
        end if;
    end loop;
    taken := p_want - v_spare;
end
$$;

-- The spans that an exchange claimed, with all that their jobs need to run.
create function longshore.claimed(p_token bigint, p_number bigint)
returns table (
    part smallint, segment bigint, lo smallint, hi smallint, size smallint, weight integer,
    mask bytea, rank bigint, run_at bigint, delivery integer, attempt integer,
    failures integer, crashes integer, lapses integer, queue text, type text, tenant text,
    priority smallint, max_attempts integer, timeout bigint, created_at bigint, ids bytea,
    payloads bytea, bounds integer[], types text[], tenants text[], attributes text
) language sql stable
begin atomic
    select c.part, c.segment, c.lo, c.hi, c.size, c.weight, c.mask, c.rank, c.run_at,
           c.delivery, c.attempt, c.failures, c.crashes, c.lapses, s.queue, s.type, s.tenant,
           s.priority, s.max_attempts, s.timeout, s.created_at,
           substring(s.ids from c.lo * 16 + 1 for (c.hi - c.lo) * 16),
           substring(s.payloads from s.bounds[c.lo + 1] + 1
                     for s.bounds[c.hi + 1] - s.bounds[c.lo + 1]),
           s.bounds[c.lo + 1 : c.hi + 1],
           s.types[c.lo + 1 : c.hi], s.tenants[c.lo + 1 : c.hi], s.attributes::text
      from longshore.claim c cross join lateral (
           select x.* from longshore.segment x where x.segment = c.segment offset 0) s
     where c.token = p_token and c.number = p_number
     order by c.part;
end;
