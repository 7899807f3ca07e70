-- Ordering keys. A line is the jobs of a tenant that share a queue and an ordering key: only some
-- of them, mostly one, are let in at a time, and the others are parked in their order.
-- Decision 0033 has the reasons.

-- A line that has jobs, or that dead ones block. `inside` counts those that are ready, run or
-- wait to be tried again; `tail` counts those that ever joined, and is the place of the one that
-- was parked last; `opens_at` is when the next one is let in, where nothing but the rate of its
-- key keeps it. Whoever changes anything in a line holds its row, and takes several in the order
-- of their names.
create table longshore.line (
    queue    text collate "C" not null,
    tenant   text collate "C" not null,
    key      text collate "C" not null,
    inside   integer not null,
    tail     bigint  not null,
    last     uuid,
    dead     uuid[],
    opens_at bigint,
    primary key (queue, tenant, key)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
comment on column longshore.line.last is 'the job that was let in last';
comment on column longshore.line.dead is 'the jobs that block it; null when none do';
create index line_blocked on longshore.line (queue, tenant, key) where dead is not null;
create index line_opens on longshore.line (opens_at) where opens_at is not null;

-- Jobs that are ready, but behind others of their line. Claims do not look here. None of them has
-- failed.
create table longshore.parked (
    queue       text collate "C" not null,
    tenant      text collate "C" not null,
    key         text collate "C" not null,
    place       bigint   not null,
    segment     bigint   not null,
    ordinal     smallint not null,
    type        text collate "C" not null,
    weight      integer  not null,
    rank        bigint   not null,
    run_at      bigint   not null,
    delivery    integer  not null,
    attempt     integer  not null,
    is_replayed boolean  not null,
    primary key (queue, tenant, key, place)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
create index parked_segment on longshore.parked (segment);

-- A job that goes to the end of its line.
create type longshore.joining as (
    segment bigint, ordinal integer, run_at bigint, rank bigint, delivery integer,
    attempt integer, is_replayed boolean
);

-- The token bucket that each line of a queue has, as whole numbers; null where lines have none.
create function longshore.key_limits_of(p_settings jsonb, out rate bigint, out burst bigint)
language plpgsql immutable
    set search_path = pg_catalog, pg_temp
as $$
begin
    select l.rate, l.burst into rate, burst
      from longshore.limits_of(jsonb_strip_nulls(jsonb_build_object(
               'rate', p_settings -> 'rate_per_key', 'burst', p_settings -> 'burst_per_key'))) l;
end
$$;

-- Let in as many parked jobs of a line as may, and write down how it stands; returns how many were
-- let in. The caller holds the line's row, and with it the line's bucket.
create function longshore.move_up(
    p_queue text, p_tenant text, p_key text, p_inside integer, p_last uuid, p_dead uuid[],
    p_now bigint
) returns integer language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_name     constant text := concat_ws(' ', 'line', p_queue, p_tenant, p_key);
    v_flow     record;
    v_since    bigint;
    v_room     integer := 0;
    v_opens_at bigint;
    v_count    integer := 0;
    v_segments bigint[];
    v_last     uuid;
begin
    if p_dead is null then
        select coalesce((f.settings ->> 'max_running_per_key')::integer, 1) as most, l.*
          into v_flow
          from longshore.flow f cross join lateral longshore.key_limits_of(f.settings) l
         where f.queue = p_queue;
        v_room := coalesce(v_flow.most, 1) - p_inside;
        if v_room > 0 and v_flow.rate is not null then
            v_since := longshore.filled_since(
                (select b.empty_at from longshore.bucket b where b.name = v_name),
                v_flow.rate, v_flow.burst, p_now);
            v_room := least(v_room, (p_now * 1000 - v_since) * v_flow.rate / 1000000000000);
        end if;
    end if;
    if v_room > 0 then
        with next as materialized (
            select x.ctid as tid from longshore.parked x
             where x.queue = p_queue and x.tenant = p_tenant and x.key = p_key
             order by x.place limit v_room
        ), gone as (
            delete from longshore.parked p using next n where p.ctid = n.tid returning p.*
        ), moved as (
            insert into longshore.ready
                (queue, type, rank, segment, lo, hi, size, weight, run_at, delivery, attempt,
                 is_replayed)
            select g.queue, g.type, g.rank, g.segment, g.ordinal, g.ordinal + 1, 1, g.weight,
                   g.run_at, g.delivery, g.attempt, g.is_replayed
              from gone g
        )
        select count(*), array_agg(g.segment), (
               array_agg(encode(substring(s.ids from g.ordinal * 16 + 1 for 16), 'hex')::uuid
                         order by g.place desc))[1]
          into v_count, v_segments, v_last
          from gone g cross join lateral (
               select x.ids from longshore.segment x where x.segment = g.segment offset 0) s;
    end if;
    if v_since is not null then
        if v_count > 0 then
            v_since := v_since + longshore.filling(v_flow.rate, v_count);
            insert into longshore.bucket as b (name, empty_at, full_at)
            values (v_name, v_since,
                    (v_since + longshore.filling(v_flow.rate, v_flow.burst) + 999) / 1000)
                on conflict (name) do update
               set empty_at = excluded.empty_at, full_at = excluded.full_at;
        end if;
        if v_flow.most > p_inside + v_count and exists (
               select from longshore.parked x
                where x.queue = p_queue and x.tenant = p_tenant and x.key = p_key) then
            v_opens_at := (v_since + longshore.filling(v_flow.rate, 1) + 999) / 1000;
        end if;
    end if;
    if p_inside + v_count = 0 and p_dead is null and v_opens_at is null then
        delete from longshore.line l
         where l.queue = p_queue and l.tenant = p_tenant and l.key = p_key;
    else
        update longshore.line l
           set inside = p_inside + v_count, last = coalesce(v_last, p_last), dead = p_dead,
               opens_at = v_opens_at
         where l.queue = p_queue and l.tenant = p_tenant and l.key = p_key;
    end if;
    if v_count > 0 then
        perform longshore.arrange(v_segments);
        if exists (select from longshore.waiting) then
            perform pg_notify('longshore', '');
        end if;
    end if;
    return v_count;
end
$$;

-- Put jobs at the ends of their lines, in this order; those that block a line go back to their
-- place in it. All of them at once: most lines are new, and then there is nothing else to do.
-- Where keys have a rate everybody is parked first, and let in as far as there are tokens.
-- Those of a segment that are let in together are one span, of several types if the segment is.
create function longshore.line_up(p_jobs longshore.joining[], p_now bigint) returns void language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_nestloop = off set enable_mergejoin = off set enable_hashjoin = on
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_queues  text[];
    v_most    integer[];
    v_paced   text[];
    v_entered integer;
    v_others  longshore.line[];
    v_line    longshore.line;
begin
    select array_agg(f.queue), array_agg((f.settings ->> 'max_running_per_key')::integer),
           array_agg(f.queue) filter (where f.settings ? 'rate_per_key')
      into v_queues, v_most, v_paced
      from longshore.flow f where f.settings ?| array['max_running_per_key', 'rate_per_key'];
    with job as materialized (
        select w.*, row_number() over (partition by w.queue, w.tenant, w.key
                                       order by w.place) as nth
          from (select t.*, s.queue, s.weight, s.types is not null as is_mixed,
                       coalesce(s.tenants[t.ordinal + 1], s.tenant) as tenant,
                       coalesce(s.types[t.ordinal + 1], s.type) as type,
                       (s.keys -> t.ordinal::text ->> 'ordering_key') collate "C" as key,
                       encode(substring(s.ids from t.ordinal * 16 + 1 for 16), 'hex')::uuid as id
                  from unnest(p_jobs) with ordinality
                       as t (segment, ordinal, run_at, rank, delivery, attempt, is_replayed,
                             place)
                 cross join lateral (
                       select x.queue, x.weight, x.types, x.type, x.tenants, x.tenant, x.keys,
                              x.ids
                         from longshore.segment x where x.segment = t.segment offset 0) s) w
    ), name as materialized (
        select j.queue, j.tenant, j.key, count(*)::integer as jobs,
               array_agg(j.id order by j.nth) as ids,
               coalesce(v_most[array_position(v_queues, j.queue)], 1) as most,
               array_position(v_paced, j.queue) is not null as is_paced
          from job j group by j.queue, j.tenant, j.key
    ), held as (
        -- In the order of their names.
        insert into longshore.line as l (queue, tenant, key, inside, tail, last)
        select n.queue, n.tenant, n.key, r.room, n.jobs, n.ids[r.room]
          from name n cross join lateral (
               select case when n.is_paced then 0 else least(n.jobs, n.most) end as room) r
         order by n.queue, n.tenant, n.key
            on conflict (queue, tenant, key) do update set tail = l.tail + excluded.tail
        returning l.*
    ), line as materialized (
        -- In a new one there is nobody before them.
        select h.*, n.jobs, n.ids, n.most, 
               case when h.tail = n.jobs and not n.is_paced then n.most else 0 end as room
          from held h join name n using (queue, tenant, key)
    ), placed as materialized (
        select j.*, l.tail - l.jobs + j.nth as seat, j.nth <= l.room as is_inside
          from job j join line l using (queue, tenant, key)
         where l.dead is null or j.id <> all (l.dead)
    ), entered as (
        insert into longshore.ready
            (queue, type, types, rank, segment, lo, hi, size, weight, mask, run_at, delivery,
             attempt, is_replayed)
        select g.queue, case when g.is_mixed then '' else g.types[1] end,
               case when g.is_mixed then g.types end, g.rank, g.segment, g.lo, g.hi, g.size,
               g.weight,
               case when g.size < g.hi - g.lo then longshore.mask(g.ordinals, g.hi) end,
               g.run_at, g.delivery, g.attempt, g.is_replayed
          from (select p.segment, p.queue, p.weight, p.is_mixed, p.rank, p.run_at, p.delivery,
                       p.attempt, p.is_replayed, min(p.ordinal) as lo, max(p.ordinal) + 1 as hi,
                       count(*) as size, array_agg(p.ordinal) as ordinals,
                       array_agg(distinct p.type) as types
                  from placed p where p.is_inside
                 group by p.segment, p.queue, p.weight, p.is_mixed, p.rank, p.run_at, p.delivery,
                          p.attempt, p.is_replayed) g
    ), parked as (
        insert into longshore.parked
        select p.queue, p.tenant, p.key, p.seat, p.segment, p.ordinal, p.type, p.weight, p.rank,
               p.run_at, p.delivery, p.attempt, p.is_replayed
          from placed p where not p.is_inside
    )
    select (select count(*) from placed p where p.is_inside),
           (select array_agg(row(l.queue, l.tenant, l.key, l.inside, l.tail, l.last,
                                 l.dead, l.opens_at)::longshore.line)
              from line l
             where l.room = 0 and (l.dead && l.ids or (l.dead is null and l.inside < l.most)))
      into v_entered, v_others;
    if v_others is not null then
        foreach v_line in array v_others loop
            if v_line.dead is not null then
                v_line := longshore.go_back(p_jobs, v_line);
                v_entered := v_entered + 1;
            end if;
            perform longshore.move_up(v_line.queue, v_line.tenant, v_line.key, v_line.inside,
                                      v_line.last, v_line.dead, p_now);
        end loop;
    end if;
    if v_entered > 0 then
        perform longshore.arrange(array(select m.segment from unnest(p_jobs) m));
        if exists (select from longshore.waiting) then
            perform pg_notify('longshore', '');
        end if;
    end if;
end
$$;

-- Make those of the jobs that block a line ready, in their place: they block it no longer.
-- Returns how the line stands then; the caller holds it.
create function longshore.go_back(
    p_jobs longshore.joining[], p_line longshore.line
) returns longshore.line language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_ids  uuid[];
    v_line longshore.line;
begin
    with job as materialized (
        select j.*, s.type, s.weight, s.id
          from unnest(p_jobs) with ordinality
               as j (segment, ordinal, run_at, rank, delivery, attempt, is_replayed, nth)
         cross join lateral (
               select coalesce(x.types[j.ordinal + 1], x.type) as type, x.weight,
                      encode(substring(x.ids from j.ordinal * 16 + 1 for 16), 'hex')::uuid as id
                 from longshore.segment x where x.segment = j.segment offset 0) s
         where s.id = any (p_line.dead)
    ), entered as (
        insert into longshore.ready
            (queue, type, rank, segment, lo, hi, size, weight, run_at, delivery, attempt,
             is_replayed)
        select p_line.queue, j.type, j.rank, j.segment, j.ordinal, j.ordinal + 1, 1, j.weight,
               j.run_at, j.delivery, j.attempt, j.is_replayed
          from job j
    )
    select array_agg(j.id order by j.nth) into v_ids from job j;
    update longshore.line l
       set inside = l.inside + cardinality(v_ids), last = v_ids[cardinality(v_ids)],
           dead = nullif(array(select d from unnest(l.dead) with ordinality as t (d, nth)
                                where d <> all (v_ids) order by nth), '{}')
     where l.queue = p_line.queue and l.tenant = p_line.tenant and l.key = p_line.key
    returning l.* into v_line;
    return v_line;
end
$$;

-- Store new jobs with ordering keys, in their order: those that are due join their lines, the
-- others are scheduled.
-- Whoever holds one of the lines in an open transaction is not waited for longer than this.
create function longshore.line_up_new(
    p_now bigint, p_arrival bigint, p_ids uuid[], p_run_ats bigint[], p_delays bigint[],
    p_wakes boolean
) returns void language plpgsql
    set lock_timeout = '200ms'
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    c_epoch  constant bigint := 1704067200000000;
    c_band   constant bigint := 1::bigint << 51;
    v_since  constant bigint := least(greatest(p_arrival - c_epoch, 0), c_band - 1);
    v_queues text[];
    v_agings bigint[];
    v_jobs   longshore.joining[];
begin
    select array_agg(f.queue), array_agg(longshore.aging_of(f.settings))
      into v_queues, v_agings
      from longshore.flow f where f.settings ? 'order';
    -- The ranks are the same as in longshore.submit.
    with job as materialized (
        select t.place, l.segment, l.ordinal, coalesce(t.run_at, p_now + t.delay) as due,
               s.queue, s.priority::bigint as priority, s.weight,
               coalesce(s.types[l.ordinal + 1], s.type) as type,
               s.keys -> l.ordinal::text ->> 'ordering_key' as key,
               v_agings[array_position(v_queues, s.queue)] as aging
          from unnest(p_ids, p_run_ats, p_delays) with ordinality
               as t (id, run_at, delay, place)
         cross join lateral (
               select x.* from longshore.locator x where x.id = t.id offset 0) l
         cross join lateral (
               select x.* from longshore.segment x where x.segment = l.segment offset 0) s
    ), later as (
        insert into longshore.scheduled
            (run_at, segment, lo, hi, size, weight, queue, type, rank, line)
        select j.due, j.segment, j.ordinal, j.ordinal + 1, 1, j.weight, j.queue, j.type,
               coalesce(longshore.aged(j.priority, j.due - c_epoch, j.aging),
                        (j.priority << 52) + least(greatest(j.due - c_epoch, 0), c_band - 1)),
               j.key
          from job j where j.due > p_now
    )
    select array_agg(row(j.segment, j.ordinal, p_arrival,
                         coalesce(longshore.aged(j.priority, p_arrival - c_epoch, j.aging),
                                  (j.priority << 52) + c_band + v_since),
                         0, 0, false)::longshore.joining order by j.place)
      into v_jobs from job j where j.due <= p_now;
    if v_jobs is not null then
        perform longshore.line_up(v_jobs, p_now);
        if p_wakes then
            perform pg_notify('longshore', '');
        end if;
    end if;
end
$$;

-- Let lines go on whose jobs have ended. p_ends is a JSON array of objects: queue, tenant, key,
-- id, state. A session that meets a line which someone holds for longer tries again: it has
-- renewals to make.
create function longshore.leave_lines(p_ends jsonb, p_now bigint) returns void language plpgsql
    set lock_timeout = '2s'
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_empty  tid[];
    v_others longshore.line[];
    v_line   longshore.line;
begin
    with name as materialized (
        select t.queue, t.tenant, t.key, count(*)::integer as jobs,
               array_agg(t.id order by t.place) filter (where t.state = 'dead') as died
          from rows from (jsonb_to_recordset(p_ends) as (
                   queue text collate "C", tenant text collate "C", key text collate "C",
                   id uuid, state text))
               with ordinality as t (queue, tenant, key, id, state, place)
         group by t.queue, t.tenant, t.key order by t.queue, t.tenant, t.key
    ), held as materialized (
        select n.jobs, n.died, l.*, l.tail = n.jobs and l.dead is null and n.died is null as is_over
          from name n cross join lateral (
               select x.ctid as tid, x.* from longshore.line x
                where x.queue = n.queue and x.tenant = n.tenant and x.key = n.key
                  for update) l
    )
    -- If all who ever joined a line leave it now, nobody is behind them.
    select array_agg(h.tid) filter (where h.is_over),
           array_agg(row(
               h.queue, h.tenant, h.key, greatest(h.inside - h.jobs, 0), h.tail, h.last,
               case when h.died is not null and exists (
                    select from longshore.flow f
                     where f.queue = h.queue and f.settings ->> 'on_dead' = 'block'
               ) then h.dead || h.died else h.dead end,
               h.opens_at)::longshore.line)
               filter (where not h.is_over)
      into v_empty, v_others
      from held h;
    delete from longshore.line l where l.ctid = any (v_empty);
    if v_others is not null then
        foreach v_line in array v_others loop
            perform longshore.move_up(v_line.queue, v_line.tenant, v_line.key, v_line.inside,
                                      v_line.last, v_line.dead, p_now);
        end loop;
    end if;
end
$$;

-- Let a line go on without the dead jobs that block it; whether there were any.
create function longshore.release_line(
    p_queue text, p_tenant text, p_key text, p_now bigint
)
returns boolean language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_line longshore.line;
begin
    select l.* into v_line from longshore.line l
     where l.queue = p_queue and l.tenant = p_tenant and l.key = p_key and l.dead is not null
       for update;
    if not found then
        return false;
    end if;
    perform longshore.move_up(p_queue, p_tenant, p_key, v_line.inside, v_line.last, null,
                              p_now);
    return true;
end
$$;

-- Let in the jobs that rates let in by now, of up to p_limit lines; returns how many jobs that
-- are. What others hold is passed over: they open it themselves, or leave it to the next look.
create function longshore.open_lines(p_now bigint, p_limit integer) returns integer
language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_now   constant bigint := longshore.clock(p_now);
    v_count integer := 0;
    v_line  longshore.line;
begin
    for v_line in
        select l.* from longshore.line l where l.opens_at <= v_now
         order by l.opens_at, l.queue, l.tenant, l.key limit p_limit
           for update skip locked
    loop
        v_count := v_count + longshore.move_up(
            v_line.queue, v_line.tenant, v_line.key, v_line.inside, v_line.last, v_line.dead,
            v_now);
    end loop;
    return v_count;
end
$$;

-- Lock the lines of these jobs, in the order of their names.
create function longshore.hold_lines(p_handles bigint[]) returns void language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_count integer;
begin
    with name as materialized (
        select distinct s.queue, coalesce(s.tenants[o.ordinal + 1], s.tenant) as tenant,
               (s.keys -> o.ordinal::text ->> 'ordering_key') collate "C" as key
          from unnest(p_handles) as t (handle)
         cross join lateral (select (t.handle & 4095)::integer as ordinal) o
         cross join lateral (
               select x.* from longshore.segment x where x.segment = t.handle >> 12 offset 0) s
         where s.keys -> o.ordinal::text ? 'ordering_key'
         order by 1, 2, 3
    )
    select count(*) into v_count
      from name n cross join lateral (
           select x.queue from longshore.line x
            where x.queue = n.queue and x.tenant = n.tenant and x.key = n.key
              for update) l;
end
$$;
