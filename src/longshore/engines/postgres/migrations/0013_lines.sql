-- Lines: the jobs of a tenant that share a queue and an ordering key. Code that does not keep
-- their order has to leave.

-- A line that has jobs, or that dead ones block. `inside` counts those that are ready, run or
-- wait to be tried again; `tail` is the place of the one that was parked last. Whoever changes
-- anything in a line holds its row, and takes several in the order of their names.
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

-- Jobs go to the ends of their lines, in this order; those that block one go back to it.
create function longshore.line_up(p_jobs longshore.joining[]) returns void language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
    v_name  record;
    v_line  longshore.line;
    v_back  uuid[];
    v_room  integer;
begin
    for v_name in
        select w.queue, w.tenant, w.key, count(*)::integer as jobs,
               array_agg(w.job order by w.place) as members, array_agg(w.id) as ids
          from (select t.place, s.queue,
                       row(t.segment, t.ordinal, t.run_at, t.rank, t.delivery, t.attempt,
                           t.is_replayed)::longshore.joining as job,
                       coalesce(s.tenants[t.ordinal + 1], s.tenant) as tenant,
                       (s.keys -> t.ordinal::text ->> 'ordering_key') collate "C" as key,
                       encode(substring(s.ids from t.ordinal * 16 + 1 for 16), 'hex')::uuid as id
                  from unnest(p_jobs) with ordinality
                       as t (segment, ordinal, run_at, rank, delivery, attempt, is_replayed,
                             place)
                 cross join lateral (
                       select x.queue, x.tenant, x.tenants, x.keys, x.ids
                         from longshore.segment x where x.segment = t.segment offset 0) s) w
         group by w.queue, w.tenant, w.key order by w.queue, w.tenant, w.key
    loop
        insert into longshore.line as l (queue, tenant, key, inside, tail)
        values (v_name.queue, v_name.tenant, v_name.key, 0, v_name.jobs)
            on conflict (queue, tenant, key) do update set tail = l.tail + excluded.tail
        returning l.* into v_line;
        v_back := '{}';
        if v_line.dead && v_name.ids then
            v_back := longshore.go_back(v_name.members, v_line);
            select l.* into v_line from longshore.line l
             where l.queue = v_line.queue and l.tenant = v_line.tenant and l.key = v_line.key;
        end if;
        v_room := 0;
        if v_line.tail = v_name.jobs then
            -- It is new: there is nobody before them.
            v_room := coalesce((select (f.settings ->> 'max_running_per_key')::integer
                                  from longshore.flow f where f.queue = v_line.queue), 1);
        end if;
        with job as materialized (
            select j.*, s.type, s.weight, s.id, row_number() over (order by j.place) as nth
              from unnest(v_name.members) with ordinality
                   as j (segment, ordinal, run_at, rank, delivery, attempt, is_replayed, place)
             cross join lateral (
                   select coalesce(x.types[j.ordinal + 1], x.type) as type, x.weight,
                          encode(substring(x.ids from j.ordinal * 16 + 1 for 16), 'hex')::uuid
                              as id
                     from longshore.segment x where x.segment = j.segment offset 0) s
             where s.id <> all (v_back)
        ), entered as (
            insert into longshore.ready
                (queue, type, rank, segment, lo, hi, size, weight, run_at, delivery, attempt,
                 is_replayed)
            select v_line.queue, j.type, j.rank, j.segment, j.ordinal, j.ordinal + 1, 1,
                   j.weight, j.run_at, j.delivery, j.attempt, j.is_replayed
              from job j where j.nth <= v_room
        ), parked as (
            insert into longshore.parked
            select v_line.queue, v_line.tenant, v_line.key,
                   v_line.tail - v_name.jobs + j.nth, j.segment, j.ordinal, j.type, j.weight,
                   j.rank, j.run_at, j.delivery, j.attempt, j.is_replayed
              from job j where j.nth > v_room
        )
        select v_line.inside + least(v_room, count(*)),
               coalesce((array_agg(j.id order by j.nth desc) filter (where j.nth <= v_room))[1],
                        v_line.last)
          into v_line.inside, v_line.last
          from job j;
        perform longshore.move_up(v_line.queue, v_line.tenant, v_line.key, v_line.inside,
                                  v_line.last, v_line.dead);
        if v_room > 0 or v_back <> '{}' then
            perform longshore.arrange(array(select m.segment from unnest(v_name.members) m));
            if exists (select from longshore.waiting) then
                perform pg_notify('longshore', '');
            end if;
        end if;
    end loop;
end
$$;

-- Those of the jobs that block a line are ready, in their place, and block it no longer. Returns
-- them; the caller holds the line.
create function longshore.go_back(
    p_jobs longshore.joining[], p_line longshore.line
) returns uuid[] language plpgsql as $$
declare
    v_ids uuid[];
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
     where l.queue = p_line.queue and l.tenant = p_line.tenant and l.key = p_line.key;
    return v_ids;
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
    v_jobs longshore.joining[];
begin
    with job as materialized (
        select t.place, l.segment, l.ordinal, coalesce(t.run_at, p_now + t.delay) as due,
               s.queue, s.priority, s.weight, coalesce(s.types[l.ordinal + 1], s.type) as type,
               s.keys -> l.ordinal::text ->> 'ordering_key' as key
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
               longshore.rank_of(j.queue, j.priority, j.due, true), j.key
          from job j where j.due > p_now
    )
    select array_agg(row(j.segment, j.ordinal, p_arrival,
                         longshore.rank_of(j.queue, j.priority, p_arrival, false), 0, 0,
                         false)::longshore.joining order by j.place)
      into v_jobs from job j where j.due <= p_now;
    if v_jobs is not null then
        perform longshore.line_up(v_jobs);
        if p_wakes then
            perform pg_notify('longshore', '');
        end if;
    end if;
end
$$;

-- The rank of a job that arrives, or is to run, at p_at: the same as in longshore.submit.
create function longshore.rank_of(
    p_queue text, p_priority integer, p_at bigint, p_is_punctual boolean
) returns bigint language plpgsql stable as $$
declare
    c_epoch constant bigint := 1704067200000000;
    c_band  constant bigint := 1::bigint << 51;
    v_aging bigint;
begin
    select longshore.aging_of(f.settings) into v_aging
      from longshore.flow f where f.queue = p_queue;
    if v_aging is not null then
        return longshore.aged(p_priority, p_at - c_epoch, v_aging);
    end if;
    return (p_priority::bigint << 52) + case when p_is_punctual then 0 else c_band end
           + least(greatest(p_at - c_epoch, 0), c_band - 1);
end
$$;

-- Jobs that were inside their lines have ended; the next ones go on. A JSON array of objects:
-- queue, tenant, key, id, state. A session that meets a line which someone holds for longer
-- tries again: it has renewals to make.
create function longshore.leave_lines(p_ends jsonb) returns void language plpgsql
    set lock_timeout = '2s'
as $$
declare
    v_name record;
    v_line longshore.line;
begin
    for v_name in
        select (t.job ->> 'queue') collate "C" as queue,
               (t.job ->> 'tenant') collate "C" as tenant,
               (t.job ->> 'key') collate "C" as key, count(*)::integer as jobs,
               array_agg((t.job ->> 'id')::uuid order by t.place)
                   filter (where t.job ->> 'state' = 'dead') as dead
          from jsonb_array_elements(p_ends) with ordinality as t (job, place)
         group by 1, 2, 3 order by 1, 2, 3
    loop
        select l.* into v_line from longshore.line l
         where l.queue = v_name.queue and l.tenant = v_name.tenant and l.key = v_name.key
           for update;
        continue when not found;
        if v_name.dead is not null and exists (
            select from longshore.flow f
             where f.queue = v_name.queue and f.settings ->> 'on_dead' = 'block'
        ) then
            v_line.dead := v_line.dead || v_name.dead;
        end if;
        perform longshore.move_up(v_line.queue, v_line.tenant, v_line.key,
                                  greatest(v_line.inside - v_name.jobs, 0), v_line.last,
                                  v_line.dead);
    end loop;
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
       s.keys -> p.ordinal::text ->> 'ordering_key', count(*), 0,
       (array_agg(encode(substring(s.ids from p.ordinal * 16 + 1 for 16), 'hex')::uuid))[1]
  from longshore.segment s
 cross join lateral longshore.places(s.segment, null) p
 where s.keys -> p.ordinal::text ? 'ordering_key'
   and (p.home = 'ready' or p.state = 'running' or (p.home = 'scheduled' and p.delivery > 0))
 group by 1, 2, 3;
