-- A span of several types that someone else is just parting is missed, and asked for again.
-- longshore: works-with 0021
--
-- Two workers that wait and serve different types are woken by the same batch. One parts it by
-- type; the other found it locked, or gone since it had looked which types there are, was told that
-- it had missed nothing, and waited on, though some of the batch was for it. And what a claim takes of a queue's only span, or of the front of one,
-- counts for the 64 MB of its answer.

-- Take the first p_want jobs of a locked ready span that has more. Returns how many bytes their
-- payloads have at most.
drop function longshore.claim_front(bigint, bigint, integer, tid, integer);
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

-- Hand up to p_want jobs to an exchange: queue after queue, by rank inside each, of no queue more
-- than its room (null: any number); in a fair one tenants take turns. Only what is taken is
-- locked; what others hold is passed over. Returns how many, of all and of each queue, and, if
-- there were none, one that someone else was just taking.
create or replace function longshore.claim(
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

-- Hand up to p_want jobs of a lane to an exchange, by rank. Returns the same.
create or replace function longshore.claim_lane(
    p_token bigint, p_number bigint, p_part integer, p_queue text, p_lane text, p_types text[],
    p_want integer, p_bytes float8,
    out taken integer, out parts integer, out weight float8, out missed tid
) language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
    set enable_hashjoin = off set enable_mergejoin = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    c_all    constant bigint := 9223372036854775807;
    v_kinds  text[];
    v_lows   bigint[] := array[-1];
    v_highs  bigint[] := array[c_all];
    v_noted  record;
    v_limit  integer := 8;
    v_rank   bigint := -1;
    v_segment bigint := -1;
    v_hi     integer := -1;
    v_tids   tid[];
    v_mixed  tid[];
    v_whole  tid[];
    v_cut    tid;
    v_ranks  bigint[];
    v_segments bigint[];
    v_his    smallint[];
    v_count  integer;
    v_heavy  float8;
begin
    taken := 0;
    parts := 0;
    weight := 0;
    select h.types, h.lows, h.highs into v_noted from longshore.lane_horizon h
     where h.queue = p_queue and h.lane = p_lane and h.all_at > clock_timestamp();
    if found then
        v_kinds := array(select t.type from unnest(v_noted.types) as t (type)
                          where t.type = '' or t.type = any (p_types));
        v_lows := v_noted.lows;
        v_highs := v_noted.highs;
    else
        v_kinds := longshore.lane_types(p_queue, p_lane, p_types);
    end if;
    while v_kinds is not null and taken < p_want and weight < p_bytes loop
        -- As in longshore.claim: what comes behind the last span of a type that was cut off at
        -- the limit is not known to be next.
        with head as materialized (
            select t.type, r.tid, r.rank, r.segment, r.hi, r.size, r.weight, r.is_mixed,
                   row_number() over (partition by t.type, b.low
                                      order by r.rank, r.segment, r.hi) as place
              from unnest(v_kinds) as t (type)
             cross join unnest(v_lows, v_highs) as b (low, high)
             cross join lateral (select v_rank >= b.low as is_past) w
             cross join lateral (
                   select x.ctid as tid, x.rank, x.segment, x.hi, x.size, x.weight,
                          t.type = '' and not x.types <@ p_types as is_mixed
                     from longshore.ready x
                    where x.queue = p_queue and x.lane = p_lane and x.lane <> ''
                      and x.type = t.type
                      and (x.rank + 0, x.segment, x.hi) > (
                          case when w.is_past then v_rank else b.low end,
                          case when w.is_past then v_segment else -1 end,
                          case when w.is_past then v_hi else -1 end)
                      and x.rank + 0 < b.high
                    order by x.rank + 0, x.segment, x.hi limit v_limit) r
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
        select array_agg(s.tid) filter (where not s.is_mixed), array_agg(s.rank),
               array_agg(s.segment), array_agg(s.hi), array_agg(s.tid) filter (where s.is_mixed)
          into v_tids, v_ranks, v_segments, v_his, v_mixed
          from sure s
         where s.before < p_want - taken and s.weight_before + claim_lane.weight < p_bytes;
        exit when v_ranks is null;
        if v_mixed is not null and longshore.part(v_mixed) > 0 then
            -- Their parts may end before the last span of the same segment that was passed.
            v_hi := -1;
            -- Their types may be new to the notes.
            delete from longshore.lane_horizon h where h.queue = p_queue;
            v_kinds := longshore.lane_types(p_queue, p_lane, p_types);
            v_lows := array[-1];
            v_highs := array[c_all];
            continue;
        end if;
        missed := coalesce(missed, v_mixed[1]);
        v_rank := v_ranks[cardinality(v_ranks)];
        v_segment := v_segments[cardinality(v_segments)];
        v_hi := v_his[cardinality(v_his)];
        v_limit := least(v_limit * 2, 2048);
        continue when v_tids is null;
        with locked as materialized (
            select x.ctid as tid, x.rank, x.segment, x.hi, x.size, x.weight
              from longshore.ready x where x.ctid = any (v_tids)
               for update skip locked
        ), counted as (
            select l.*, sum(l.size) over (order by l.rank, l.segment, l.hi
                                          rows unbounded preceding) as total
              from locked l
        )
        select array_agg(c.tid) filter (where c.total <= p_want - taken),
               (array_agg(c.tid) filter (where c.total > p_want - taken
                                           and c.total - c.size < p_want - taken))[1],
               coalesce(sum(c.size) filter (where c.total <= p_want - taken), 0),
               coalesce(sum(c.size::float8 * c.weight)
                            filter (where c.total <= p_want - taken), 0)
          into v_whole, v_cut, v_count, v_heavy
          from counted c;
        if v_whole is null and v_cut is null then
            missed := v_tids[1];
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
                   p_part + parts + row_number() over (order by g.rank, g.segment, g.hi),
                   g.segment, g.lo, g.hi, g.size, g.weight, g.mask, g.rank, g.run_at,
                   g.delivery + 1, g.attempt, g.failures, g.crashes, g.lapses
              from gone g;
            parts := parts + cardinality(v_whole);
            taken := taken + v_count;
            weight := weight + v_heavy;
        end if;
        if v_cut is not null and taken < p_want then
            parts := parts + 1;
            weight := weight + longshore.claim_front(p_token, p_number, p_part + parts, v_cut,
                                                     p_want - taken);
            taken := p_want;
        end if;
    end loop;
end
$$;
