-- Fair queues, whose tenants take turns. Decision 0034 has the reasons.

-- The tenants of a fair queue that are ahead of it, and how far each is: core.fair_queueing says
-- what it means. Changed by those who claim alone from the queue.
create table longshore.fair (
    queue  text collate "C" not null,
    tenant text collate "C" not null,
    vtime  bigint not null,
    primary key (queue, tenant)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- What longshore.horizon is to a queue, for each tenant of a fair one: where claims begin to look
-- while an old snapshot keeps the server from forgetting what was claimed. Of these types, ranks
-- from each of `lows` up to and without that of `highs`, one for each priority, until `all_at`.
create table longshore.lane_horizon (
    queue  text collate "C" not null,
    lane   text collate "C" not null,
    types  text[] collate "C" not null,
    lows   bigint[] not null,
    highs  bigint[] not null,
    all_at timestamptz not null,
    primary key (queue, lane)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- The shares of tenants in fair queues; a tenant that is not here has the weight 1.
create table longshore.tenant_weight (
    tenant text collate "C" primary key,
    weight integer not null check (weight > 0)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Put ready spans into the lanes of their tenants: one that has jobs of several is parted.
create function longshore.into_lanes(p_spans tid[]) returns void language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_span record;
begin
    update longshore.ready r set lane = s.tenant
      from longshore.ready x cross join lateral (
           select g.tenant from longshore.segment g where g.segment = x.segment offset 0) s
     where x.ctid = any (p_spans) and r.ctid = x.ctid and s.tenant <> '';
    for v_span in
        select r.*, r.ctid as tid from longshore.ready r
         where r.ctid = any (p_spans) and r.lane = '' for update
    loop
        delete from longshore.ready r where r.ctid = v_span.tid;
        insert into longshore.ready
            (queue, type, types, rank, segment, lo, hi, size, weight, mask, run_at, delivery,
             attempt, failures, crashes, lapses, is_replayed, lane)
        select v_span.queue, case when cardinality(g.types) = 1 then g.types[1] else '' end,
               case when cardinality(g.types) > 1 then g.types end, v_span.rank,
               v_span.segment, g.lo, g.hi, g.size, v_span.weight,
               case when g.size < g.hi - g.lo then longshore.mask(g.ordinals, g.hi) end,
               v_span.run_at, v_span.delivery, v_span.attempt, v_span.failures,
               v_span.crashes, v_span.lapses, v_span.is_replayed, g.tenant
          from (select t.tenant, min(o.ordinal) as lo, max(o.ordinal) + 1 as hi,
                       count(*) as size, array_agg(o.ordinal) as ordinals,
                       array_agg(distinct coalesce(s.types[t.place], s.type)) as types
                  from longshore.segment s
                 cross join lateral unnest(s.tenants) with ordinality as t (tenant, place)
                 cross join lateral (select t.place::integer - 1 as ordinal) o
                 where s.segment = v_span.segment
                   and o.ordinal >= v_span.lo and o.ordinal < v_span.hi
                   and longshore.has(v_span.mask, o.ordinal)
                 group by t.tenant) g;
    end loop;
end
$$;

-- Put those ready spans of these segments that are in fair queues into their lanes.
create function longshore.arrange(p_segments bigint[]) returns void language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_fair  text[];
    v_spans tid[];
begin
    select array_agg(f.queue) into v_fair from longshore.flow f
     where f.settings ->> 'order' = 'fair';
    if v_fair is not null then
        select array_agg(x.tid) into v_spans
          from unnest(p_segments) as s (segment) cross join lateral (
               select r.ctid as tid from longshore.ready r
                where r.segment = s.segment and r.lane = '' and r.queue = any (v_fair)
               offset 0) x;
        perform longshore.into_lanes(v_spans);
    end if;
end
$$;

-- Put all ready spans of a queue into lanes: it has become fair, or the transactions are over
-- that may not have known of it.
create function longshore.sort_lanes(p_queue text) returns void language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform longshore.into_lanes(array(
        select r.ctid from longshore.ready r where r.queue = p_queue and r.lane = ''));
end
$$;

-- The tenants that have ready spans in a fair queue: one seek for each.
create function longshore.lane_names(p_queue text) returns text[] language plpgsql stable
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        with recursive present (lane) as (
            (select r.lane from longshore.ready r where r.queue = p_queue and r.lane <> ''
              order by r.lane, r.type, r.rank + 0 limit 1)
            union all
            select (select r.lane from longshore.ready r
                     where r.queue = p_queue and r.lane <> '' and r.lane > p.lane
                     order by r.lane, r.type, r.rank + 0 limit 1)
              from present p where p.lane is not null
        )
        select array_agg(p.lane) from present p where p.lane is not null);
end
$$;

-- The types of which a lane has ready spans that a session may take; an empty one stands for
-- spans of several.
create function longshore.lane_types(p_queue text, p_lane text, p_types text[]) returns text[]
language plpgsql stable
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        with recursive present (type) as (
            (select r.type from longshore.ready r
              where r.queue = p_queue and r.lane = p_lane and r.lane <> ''
              order by r.type, r.rank + 0 limit 1)
            union all
            select (select r.type from longshore.ready r
                     where r.queue = p_queue and r.lane = p_lane and r.lane <> ''
                       and r.type > p.type
                     order by r.type, r.rank + 0 limit 1)
              from present p where p.type is not null
        )
        select array_agg(p.type) from present p
         where p.type = '' or p.type = any (p_types));
end
$$;

-- Where the first ready job of each priority is in a lane; from where claims look now, if that is
-- given, and past the moment where there is none.
create function longshore.lane_lows(
    p_queue text, p_lane text, p_types text[], p_lows bigint[]
) returns bigint[] language plpgsql stable
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    c_second constant bigint := 1000000;
    c_band   constant bigint := 1::bigint << 51;
    v_since  constant bigint := least(greatest(
        (extract(epoch from clock_timestamp()) * c_second)::bigint - 1704067200000000, 0),
        c_band - 1);
begin
    return array(
        select greatest(b.band * c_band, p_lows[b.band - 1],
                        coalesce(f.rank, b.band * c_band + v_since) - 2 * c_second)
          from generate_series(2, 19) as b (band)
          left join lateral (
               select min(x.rank) as rank from unnest(p_types) as t (type)
                cross join lateral (
                      select r.rank from longshore.ready r
                       where r.queue = p_queue and r.lane = p_lane and r.lane <> ''
                         and r.type = t.type
                         and r.rank + 0 >= greatest(b.band * c_band, p_lows[b.band - 1])
                         and r.rank + 0 < (b.band + 1) * c_band
                       order by r.rank + 0 limit 1) x) f on true
         order by b.band);
end
$$;

-- Note where claims begin to look in the lanes of a fair queue, of which a claim has just looked
-- at some: what longshore.look_ahead is to a queue. Those lanes and the ones that were noted
-- before are noted though they have nothing more: what they submit next is found at once.
create function longshore.look_ahead_in_lanes(
    p_queue text, p_lanes text[], p_types text[], p_took interval
) returns void language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    c_band   constant bigint := 1::bigint << 51;
    c_old    constant interval := '10 seconds';
    v_moment constant timestamptz := clock_timestamp();
    v_dead   constant bigint := pg_stat_get_dead_tuples('longshore.ready'::regclass);
    v_types  text[];
    v_known  jsonb;
begin
    if v_dead < 2000 or (v_dead < 100000 and not exists (
           select from pg_stat_activity a
            where a.backend_type = 'client backend' and age(a.backend_xmin) > 2000
              and a.xact_start < v_moment - c_old)) then
        return;
    end if;
    update longshore.lane_horizon h
       set lows = longshore.lane_lows(h.queue, h.lane, h.types, h.lows)
     where h.queue = p_queue and h.all_at > v_moment;
    if found then
        return;
    end if;
    select coalesce(jsonb_object_agg(h.lane, h.types), '{}') into v_known
      from longshore.lane_horizon h where h.queue = p_queue;
    delete from longshore.lane_horizon h where h.queue = p_queue;
    v_types := longshore.lanes(p_queue, null);
    insert into longshore.lane_horizon (queue, lane, types, lows, highs, all_at)
    select p_queue, l.lane, t.types, longshore.lane_lows(p_queue, l.lane, t.types, null),
           array(select (b.band + 1) * c_band
                   from generate_series(2, 19) as b (band) order by b.band),
           v_moment + greatest(interval '5 seconds', 20 * p_took)
      from (select unnest(p_lanes)
             union (select jsonb_object_keys(v_known) limit 100)) as l (lane)
     cross join lateral (
           select array(select unnest(longshore.lane_types(p_queue, l.lane, v_types))
                         union select jsonb_array_elements_text(v_known -> l.lane)
                         union select unnest(p_types) where cardinality(p_types) <= 8
                         union select '')) as t (types);
end
$$;

-- Hand up to p_want jobs of a fair queue to an exchange, behind hold_flow: tenants take turns, as
-- core.fair_queueing says. Returns how many, in how many spans, which weigh how much, and one
-- that someone else was just taking.
create function longshore.claim_turns(
    p_token bigint, p_number bigint, p_part integer, p_queue text, p_types text[],
    p_want integer, p_bytes float8,
    out taken integer, out parts integer, out weight float8, out missed tid
) language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    c_unit   constant bigint := 720720;
    c_long   constant interval := '3 milliseconds';
    v_began  constant timestamptz := clock_timestamp();
    v_flow   record;
    v_at     bigint;
    v_names  text[];
    v_times  bigint[];
    v_starts bigint[];
    v_weights integer[];
    v_served boolean[];
    v_turn   integer;
    v_asked  integer;
    v_got    record;
begin
    taken := 0;
    parts := 0;
    weight := 0;
    select f.vtime, f.sorted_by into v_flow from longshore.flow f where f.queue = p_queue;
    if v_flow.sorted_by < pg_snapshot_xmin(pg_current_snapshot()) then
        perform longshore.sort_lanes(p_queue);
        update longshore.flow f set sorted_by = null where f.queue = p_queue;
    end if;
    v_at := v_flow.vtime;
    select array_agg(h.lane order by h.lane) into v_names from longshore.lane_horizon h
     where h.queue = p_queue and h.all_at > v_began;
    if v_names is null then
        v_names := longshore.lane_names(p_queue);
    end if;
    if v_names is null then
        return;
    end if;
    v_served := array_fill(false, array[cardinality(v_names)]);
    select array_agg(greatest(coalesce(f.vtime, v_at), v_at) order by n.place),
           array_agg(coalesce(t.weight, 1) order by n.place)
      into v_times, v_weights
      from unnest(v_names) with ordinality as n (name, place)
      left join lateral (
           select x.vtime from longshore.fair x
            where x.queue = p_queue and x.tenant = n.name offset 0) f on true
      left join lateral (
           select x.weight from longshore.tenant_weight x
            where x.tenant = n.name offset 0) t on true;
    v_starts := v_times;
    while taken < p_want and weight < p_bytes loop
        select s.place into v_turn from unnest(v_starts) with ordinality as s (start, place)
         where s.start is not null order by s.start, s.place limit 1;
        exit when not found;
        v_asked := least(32 * v_weights[v_turn], p_want - taken);
        select c.* into v_got
          from longshore.claim_lane(p_token, p_number, p_part + parts, p_queue,
                                    v_names[v_turn], p_types, v_asked, p_bytes - weight) c;
        missed := coalesce(missed, v_got.missed);
        taken := taken + v_got.taken;
        parts := parts + v_got.parts;
        weight := weight + v_got.weight;
        if v_got.taken > 0 then
            v_at := greatest(v_at, v_starts[v_turn]);
            v_times[v_turn] :=
                v_starts[v_turn] + v_got.taken * c_unit / v_weights[v_turn];
            v_served[v_turn] := true;
            v_starts[v_turn] := v_times[v_turn];
        end if;
        if v_got.taken < v_asked then
            v_starts[v_turn] := null;
        end if;
    end loop;
    if taken > 0 then
        insert into longshore.fair (queue, tenant, vtime)
        select p_queue, n.name, n.at
          from unnest(v_names, v_times, v_served) as n (name, at, is_served)
         where n.is_served and n.at > v_at
            on conflict on constraint fair_pkey do update set vtime = excluded.vtime;
        if v_at > v_flow.vtime then
            update longshore.flow f set vtime = v_at where f.queue = p_queue;
            delete from longshore.fair f where f.queue = p_queue and f.vtime <= v_at;
        end if;
    end if;
    if clock_timestamp() - v_began > c_long then
        perform longshore.look_ahead_in_lanes(p_queue, v_names, p_types,
                                              clock_timestamp() - v_began);
    end if;
end
$$;

-- Hand up to p_want jobs of a lane to an exchange, by rank. Returns how many, in how many spans,
-- which weigh how much, and one that someone else was just taking.
create function longshore.claim_lane(
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
