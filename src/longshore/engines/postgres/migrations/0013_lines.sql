-- Lines: the jobs of a tenant that share a queue and an ordering key. Code that does not keep
-- their order has to leave.

-- A line that has jobs, or that dead ones block. `inside` counts those that are ready, run or
-- wait to be tried again; `tail` counts those that ever joined, and is the place of the one that was
-- parked last. Whoever changes anything in a line holds its row, and takes several in the order of
-- their names.
create table longshore.line (
    queue  text collate "C" not null,
    tenant text collate "C" not null,
    key    text collate "C" not null,
    inside integer not null,
    tail   bigint  not null,
    last   uuid,
    dead   uuid[],
    primary key (queue, tenant, key)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
comment on column longshore.line.last is 'the job that was let in last';
comment on column longshore.line.dead is 'the jobs that block it; null when none do';
create index line_blocked on longshore.line (queue, tenant, key) where dead is not null;

-- Ready, but behind others of their line. Claims do not look here. None of them has failed.
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

-- Which line a job joins when it is due. A retry has kept its place in its line.
alter table longshore.scheduled add column line text collate "C";

-- A job that goes to the end of its line.
create type longshore.joining as (
    segment bigint, ordinal integer, run_at bigint, rank bigint, delivery integer,
    attempt integer, is_replayed boolean
);

-- Let jobs of a line in, as many as may, and write down how it stands: the caller holds its row.
create function longshore.move_up(
    p_queue text, p_tenant text, p_key text, p_inside integer, p_last uuid, p_dead uuid[]
) returns void language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
    v_room     integer := 0;
    v_count    integer := 0;
    v_segments bigint[];
    v_last     uuid;
begin
    if p_dead is null then
        v_room := coalesce((select (f.settings ->> 'max_running_per_key')::integer
                              from longshore.flow f where f.queue = p_queue), 1) - p_inside;
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
    if p_inside + v_count = 0 and p_dead is null then
        delete from longshore.line l
         where l.queue = p_queue and l.tenant = p_tenant and l.key = p_key;
    else
        update longshore.line l
           set inside = p_inside + v_count, last = coalesce(v_last, p_last), dead = p_dead
         where l.queue = p_queue and l.tenant = p_tenant and l.key = p_key;
    end if;
    if v_count > 0 then
        perform longshore.arrange(v_segments);
        if exists (select from longshore.waiting) then
            perform pg_notify('longshore', '');
        end if;
    end if;
end
$$;

-- Jobs go to the ends of their lines, in this order; those that block one go back to it. All of
-- them at once: most lines are new, and then there is nothing else to do.
-- Those of a segment that are let in together are one span, of several types if the segment is.
create function longshore.line_up(p_jobs longshore.joining[]) returns void language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_nestloop = off set enable_mergejoin = off set enable_hashjoin = on
as $$
declare
    v_queues  text[];
    v_most    integer[];
    v_entered integer;
    v_others  longshore.line[];
    v_line    longshore.line;
begin
    select array_agg(f.queue), array_agg((f.settings ->> 'max_running_per_key')::integer)
      into v_queues, v_most
      from longshore.flow f where f.settings ? 'max_running_per_key';
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
               coalesce(v_most[array_position(v_queues, j.queue)], 1) as most
          from job j group by j.queue, j.tenant, j.key
    ), held as (
        -- In the order of their names.
        insert into longshore.line as l (queue, tenant, key, inside, tail, last)
        select n.queue, n.tenant, n.key, least(n.jobs, n.most), n.jobs,
               n.ids[least(n.jobs, n.most)]
          from name n order by n.queue, n.tenant, n.key
            on conflict (queue, tenant, key) do update set tail = l.tail + excluded.tail
        returning l.*
    ), line as materialized (
        -- In a new one there is nobody before them.
        select h.*, n.jobs, n.ids, n.most, case when h.tail = n.jobs then n.most else 0 end as room
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
                                 l.dead)::longshore.line)
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
                                      v_line.last, v_line.dead);
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

-- Those of the jobs that block a line are ready, in their place, and block it no longer. Returns
-- how it stands then; the caller holds it.
create function longshore.go_back(
    p_jobs longshore.joining[], p_line longshore.line
) returns longshore.line language plpgsql as $$
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

-- New jobs with ordering keys, in their order: those that are due join their lines.
-- Whoever holds one of the lines in an open transaction is not waited for longer than this.
create function longshore.line_up_new(
    p_now bigint, p_arrival bigint, p_ids uuid[], p_run_ats bigint[], p_delays bigint[],
    p_wakes boolean
) returns void language plpgsql
    set lock_timeout = '200ms'
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
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
        perform longshore.line_up(v_jobs);
        if p_wakes then
            perform pg_notify('longshore', '');
        end if;
    end if;
end
$$;

-- Jobs that were inside their lines have ended; the next ones go on. A JSON array of objects:
-- queue, tenant, key, id, state. A session that meets a line which someone holds for longer
-- tries again: it has renewals to make.
create function longshore.leave_lines(p_ends jsonb) returns void language plpgsql
    set lock_timeout = '2s'
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
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
               ) then h.dead || h.died else h.dead end)::longshore.line)
               filter (where not h.is_over)
      into v_empty, v_others
      from held h;
    delete from longshore.line l where l.ctid = any (v_empty);
    if v_others is not null then
        foreach v_line in array v_others loop
            perform longshore.move_up(v_line.queue, v_line.tenant, v_line.key, v_line.inside,
                                      v_line.last, v_line.dead);
        end loop;
    end if;
end
$$;

-- Let a line go on without the dead that block it; whether there were any.
create function longshore.release_line(p_queue text, p_tenant text, p_key text)
returns boolean language plpgsql as $$
declare
    v_line longshore.line;
begin
    select l.* into v_line from longshore.line l
     where l.queue = p_queue and l.tenant = p_tenant and l.key = p_key and l.dead is not null
       for update;
    if not found then
        return false;
    end if;
    perform longshore.move_up(p_queue, p_tenant, p_key, v_line.inside, v_line.last, null);
    return true;
end
$$;

-- Lock the lines of these jobs, in the order of their names.
create function longshore.hold_lines(p_handles bigint[]) returns void language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
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

-- Where the jobs of a segment are, parked ones too: see 0005.
create or replace function longshore.places(p_segment bigint, p_ordinal integer)
returns table (
    segment bigint, ordinal integer, home text, span tid, state text, run_at bigint,
    delivery integer, attempt integer, failures integer, crashes integer, lapses integer,
    started_at bigint, finished_at bigint, reason text, worker text, token bigint,
    is_replayed boolean
) language sql stable as $$
    select r.segment, o.ordinal, 'ready', r.ctid, 'ready', r.run_at, r.delivery, r.attempt,
           r.failures, r.crashes, r.lapses, null::bigint, null::bigint, null, null,
           null::bigint, r.is_replayed
      from longshore.ready r
     cross join lateral generate_series(greatest(r.lo, p_ordinal),
                                        least(r.hi - 1, p_ordinal)) as o (ordinal)
     where r.segment = p_segment and o.ordinal >= r.lo and o.ordinal < r.hi
       and longshore.has(r.mask, o.ordinal)
    union all
    select r.segment, r.ordinal, 'parked', r.ctid, 'ready', r.run_at, r.delivery, r.attempt,
           0, 0, 0, null, null, null, null, null, r.is_replayed
      from longshore.parked r
     where r.segment = p_segment and (p_ordinal is null or r.ordinal = p_ordinal)
    union all
    select r.segment, o.ordinal, 'scheduled', r.ctid, 'scheduled', r.run_at, r.delivery,
           r.attempt, r.failures, r.crashes, r.lapses, null, null, null, null, null,
           r.is_replayed
      from longshore.scheduled r
     cross join lateral generate_series(greatest(r.lo, p_ordinal),
                                        least(r.hi - 1, p_ordinal)) as o (ordinal)
     where r.segment = p_segment and o.ordinal >= r.lo and o.ordinal < r.hi
       and longshore.has(r.mask, o.ordinal)
    union all
    select r.segment, o.ordinal, 'finished', r.ctid, r.state, r.run_at, r.delivery,
           r.attempt, r.failures, r.crashes, r.lapses,
           r.started[longshore.nth(r.lo, r.mask, o.ordinal)],
           r.finished[longshore.nth(r.lo, r.mask, o.ordinal)], r.reason, r.worker, null, false
      from longshore.finished r
     cross join lateral generate_series(greatest(r.lo, p_ordinal),
                                        least(r.hi - 1, p_ordinal)) as o (ordinal)
     where r.segment = p_segment and o.ordinal >= r.lo and o.ordinal < r.hi
       and longshore.has(r.mask, o.ordinal)
    union all
    select c.segment, o.ordinal, 'claim', c.ctid,
           case when t.kind = 1 then 'succeeded' else 'running' end, c.run_at, c.delivery,
           c.attempt + (t.kind is not null)::integer, c.failures, c.crashes, c.lapses,
           t.started_at, t.finished_at, null, w.worker, c.token, false
      from longshore.claim c
      left join lateral (
           select x.worker from longshore.session x where x.token = c.token offset 0) w on true
     cross join lateral generate_series(greatest(c.lo, p_ordinal),
                                        least(c.hi - 1, p_ordinal)) as o (ordinal)
      left join lateral (
           select t.ordinal, max(t.kind) as kind, max(t.finished_at) as finished_at,
                  coalesce(max(t.started_at) filter (where t.kind = 1),
                           min(t.started_at) filter (where t.kind = 0)) as started_at
             from longshore.told t
            where t.token = c.token and t.segment = c.segment and t.delivery = c.delivery
            group by t.ordinal) t on t.ordinal = o.ordinal
     where c.segment = p_segment and o.ordinal >= c.lo and o.ordinal < c.hi
       and longshore.has(c.mask, o.ordinal) and coalesce(t.kind, 0) < 2
$$;

-- Whether a job is waiting, running or finished: see 0002.
create or replace function longshore.state_of(p_id uuid) returns text language sql stable as $$
    select case
        when exists (select from longshore.ready r
                      where r.segment = l.segment and l.ordinal >= r.lo and l.ordinal < r.hi
                        and longshore.has(r.mask, l.ordinal)) then 'ready'
        when exists (select from longshore.scheduled r
                      where r.segment = l.segment and l.ordinal >= r.lo and l.ordinal < r.hi
                        and longshore.has(r.mask, l.ordinal)) then 'scheduled'
        when f.state is not null then f.state
        when exists (select from longshore.parked r
                      where r.segment = l.segment and r.ordinal = l.ordinal) then 'ready'
        else (select case when exists (
                         select from longshore.journal j, unnest(j.handles, j.kinds) as t (h, kind)
                          where j.token = c.token and t.h = l.segment * 4096 + l.ordinal
                            and t.kind = 1) then 'succeeded' else 'running' end
                from longshore.claim c
               where c.segment = l.segment and l.ordinal >= c.lo and l.ordinal < c.hi
                 and longshore.has(c.mask, l.ordinal)
               order by c.delivery desc limit 1)
        end
      from longshore.locator l left join lateral (
           select r.state from longshore.finished r
            where r.segment = l.segment and l.ordinal >= r.lo and l.ordinal < r.hi
              and longshore.has(r.mask, l.ordinal) limit 1) f on true
     where l.id = p_id
$$;

-- Jobs that are not in exactly one place, and lines that count wrongly: see 0006.
create or replace function longshore.misplaced()
returns table (segment bigint, ordinal integer, id uuid, places text[]) language sql stable as $$
    with span as materialized (
        select 'ready' as home, r.segment, r.lo, r.hi, r.size, r.mask, null::bigint as token,
               r.delivery
          from longshore.ready r
        union all
        select 'parked', r.segment, r.ordinal, r.ordinal + 1, 1, null, null, r.delivery
          from longshore.parked r
        union all
        select 'scheduled', r.segment, r.lo, r.hi, r.size, r.mask, null, r.delivery
          from longshore.scheduled r
        union all
        select 'finished', r.segment, r.lo, r.hi, r.size, r.mask, null, r.delivery
          from longshore.finished r
        union all
        select 'claim', r.segment, r.lo, r.hi, r.size, r.mask, r.token, r.delivery
          from longshore.claim r
    ), ended as materialized (
        select distinct t.token, t.segment, t.ordinal, t.delivery from longshore.told t
         where t.kind >= 2
    ), place as (
        select p.segment, o.ordinal, array_agg(p.home order by p.home) as places
          from span p
         cross join lateral generate_series(p.lo, p.hi - 1) as o (ordinal)
         where longshore.has(p.mask, o.ordinal)
           and not exists (
               select from ended e
                where e.token = p.token and e.segment = p.segment and e.ordinal = o.ordinal
                  and e.delivery = p.delivery)
         group by p.segment, o.ordinal
    )
    select coalesce(p.segment, l.segment), coalesce(p.ordinal, l.ordinal), l.id, p.places
      from place p
      full join longshore.locator l on l.segment = p.segment and l.ordinal = p.ordinal
     where l.id is null or p.places is null or cardinality(p.places) <> 1
    union all
    select l.segment, l.ordinal, l.id, array['not in its segment']
      from longshore.locator l left join longshore.segment s using (segment)
     where s.segment is null
        or encode(substring(s.ids from l.ordinal * 16 + 1 for 16), 'hex')
           <> replace(l.id::text, '-', '')
    union all
    select s.segment, null, null, array['types and tenants']
      from longshore.segment s
     where (s.type = '') <> (s.types is not null)
        or (s.tenant = '') <> (s.tenants is not null)
        or cardinality(s.types) <> s.size or cardinality(s.tenants) <> s.size
    union all
    select r.segment, null, null, array[r.home, 'type']
      from (select 'ready' as home, x.segment, x.lo, x.hi, x.mask, x.type, x.types
              from longshore.ready x
            union all
            select 'scheduled', x.segment, x.lo, x.hi, x.mask, x.type, x.types
              from longshore.scheduled x) r
      join longshore.segment s using (segment)
     where (r.type = '') <> (r.types is not null) or exists (
           select from generate_series(r.lo, r.hi - 1) as o (ordinal)
            where longshore.has(r.mask, o.ordinal)
              and coalesce(s.types[o.ordinal + 1], s.type) <> all (
                  coalesce(r.types, array[r.type])))
    union all
    select p.segment, null, null, array[p.home, 'size']
      from span p
     where p.size <> case when p.mask is null then p.hi - p.lo else bit_count(p.mask) end
        or p.size < 1 or p.hi <= p.lo
    union all
    select r.segment, null, null, array['finished', 'times']
      from longshore.finished r
     where cardinality(r.finished) <> r.size or cardinality(r.started) <> r.size
        or r.finished_at <> (select min(t) from unnest(r.finished) t)
    union all
    select null, null, null, array['tally', x.queue, x.tenant, x.state]
      from (select s.queue, w.tenant, f.state, w.jobs
              from longshore.finished f join longshore.segment s using (segment)
             cross join lateral longshore.owners(s, f.lo, f.hi, f.mask, f.size) w
            union all
            select t.queue, t.tenant, t.state, -t.jobs from longshore.tallied t) x
     group by x.queue, x.tenant, x.state having sum(x.jobs) <> 0
    union all
    select null, l.inside, l.last, array['line', l.queue, l.tenant, l.key]
      from longshore.line l
     where l.inside <> (
           select count(*)
             from longshore.segment s
            cross join lateral longshore.places(s.segment, null) p
            where s.queue = l.queue and coalesce(s.tenants[p.ordinal + 1], s.tenant) = l.tenant
              and s.keys -> p.ordinal::text ->> 'ordering_key' = l.key
              and (p.home = 'ready' or p.state = 'running'
                   or (p.home = 'scheduled' and p.delivery > 0)))
$$;

-- Every job, for people: see 0005.
create or replace view longshore.jobs as
select l.id, j.state, j.queue, j.type, j.tenant, j.priority,
       convert_from(j.payload, 'UTF8') as payload,
       longshore.moment(j.run_at) as run_at,
       longshore.moment(j.created_at) as created_at,
       longshore.moment(j.started_at) as started_at,
       longshore.moment(j.finished_at) as finished_at,
       j.delivery, j.attempt, j.failures, j.crashes, j.lapses, j.max_attempts,
       j.timeout * interval '1 microsecond' as timeout,
       convert_from(j.result, 'UTF8') as result, j.failure::jsonb as failure, j.reason,
       j.worker, j.cancel_requested, j.unique_key, j.idempotency_key, j.ordering_key, j.trace,
       j.tags::jsonb as tags, g.segment, j.ordinal,
       j.progress, j.progress_message, longshore.moment(j.progress_at) as progress_at,
       case when j.home = 'parked' then 'line' end as parked
  from longshore.segment g
 cross join lateral longshore.seen(g.segment) j
  join longshore.locator l
    on l.id = j.id and l.segment + 0 = g.segment and l.ordinal = j.ordinal;

-- Jobs from before there were lines count as let in, all of them: order begins with the next.
insert into longshore.line (queue, tenant, key, inside, tail, last)
select s.queue, coalesce(s.tenants[p.ordinal + 1], s.tenant),
       s.keys -> p.ordinal::text ->> 'ordering_key', count(*), count(*),
       (array_agg(encode(substring(s.ids from p.ordinal * 16 + 1 for 16), 'hex')::uuid))[1]
  from longshore.segment s
 cross join lateral longshore.places(s.segment, null) p
 where s.keys -> p.ordinal::text ? 'ordering_key'
   and (p.home = 'ready' or p.state = 'running' or (p.home = 'scheduled' and p.delivery > 0))
 group by 1, 2, 3;
