-- Rates per ordering key. Code that does not look at lines that open by themselves has to leave.

-- When the next one is let in, where nothing but the rate of its key keeps it.
alter table longshore.line add column opens_at bigint;
create index line_opens on longshore.line (opens_at) where opens_at is not null;

drop function longshore.move_up(text, text, text, integer, uuid, uuid[]);
drop function longshore.line_up(longshore.joining[]);
drop function longshore.leave_lines(jsonb);
drop function longshore.release_line(text, text, text);

-- What the bucket of each line of a queue holds, as whole numbers; null: lines have none.
create function longshore.key_limits_of(p_settings jsonb, out rate bigint, out burst bigint)
language plpgsql immutable as $$
begin
    select l.rate, l.burst into rate, burst
      from longshore.limits_of(jsonb_strip_nulls(jsonb_build_object(
               'rate', p_settings -> 'rate_per_key', 'burst', p_settings -> 'burst_per_key'))) l;
end
$$;

-- Let jobs of a line in, as many as may, and write down how it stands: the caller holds its row,
-- and with it the line's bucket. How many were let in.
create function longshore.move_up(
    p_queue text, p_tenant text, p_key text, p_inside integer, p_last uuid, p_dead uuid[],
    p_now bigint
) returns integer language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
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

-- Jobs go to the ends of their lines, in this order; those that block one go back to it. All of
-- them at once: most lines are new, and then there is nothing else to do. Where keys have a rate
-- everybody is parked first, and let in as far as there are tokens.
-- Those of a segment that are let in together are one span, of several types if the segment is.
create function longshore.line_up(p_jobs longshore.joining[], p_now bigint) returns void language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_nestloop = off set enable_mergejoin = off set enable_hashjoin = on
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

-- Jobs that were inside their lines have ended; the next ones go on. A JSON array of objects:
-- queue, tenant, key, id, state. A session that meets a line which someone holds for longer
-- tries again: it has renewals to make.
create function longshore.leave_lines(p_ends jsonb, p_now bigint) returns void language plpgsql
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

-- Let a line go on without the dead that block it; whether there were any.
create function longshore.release_line(
    p_queue text, p_tenant text, p_key text, p_now bigint
)
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
    perform longshore.move_up(p_queue, p_tenant, p_key, v_line.inside, v_line.last, null,
                              p_now);
    return true;
end
$$;

-- Let in what rates let in by now, of so many lines; how many jobs that are. What others hold is
-- passed over: they open it themselves, or leave it to the next look.
create function longshore.open_lines(p_now bigint, p_limit integer) returns integer
language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
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

-- New jobs with ordering keys: see 0013. Whoever joins a line tells the time.
create or replace function longshore.line_up_new(
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
        perform longshore.line_up(v_jobs, p_now);
        if p_wakes then
            perform pg_notify('longshore', '');
        end if;
    end if;
end
$$;

-- Apply what a session decided: see 0004. Whoever leaves a line tells the time.
create or replace function longshore.settle(
    p_token bigint, p_now bigint, p_worker text,
    c_number bigint[], c_part smallint[], c_rest bytea[], c_size smallint[],
    f_segment bigint[], f_lo smallint[], f_hi smallint[], f_mask bytea[], f_run_at bigint[],
    f_delivery integer[], f_attempt integer[], f_failures integer[], f_crashes integer[],
    f_lapses integer[], f_from integer[], f_to integer[],
    p_started bigint[], p_finished bigint[],
    j_entry bigint, j_handles bigint[], j_deliveries integer[], j_kinds smallint[],
    j_started bigint[], j_finished bigint[], p_forget bigint[],
    r_handle bigint[], r_result bytea[],
    t_queue text[], t_tenant text[], t_state text[], t_jobs bigint[],
    p_rare jsonb, p_body bytea
) returns void language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
    v_gone       tid[];
    v_gone_count integer;
    v_kept       record;
begin
    if cardinality(c_number) > 0 then
        -- `offset 0` keeps the order of the join: from the changes to the claims.
        select array_agg(k.tid) into v_gone
          from unnest(c_number, c_part, c_rest) as c (number, part, rest)
         cross join lateral (
               select x.ctid as tid from longshore.claim x
                where x.token = p_token and x.number = c.number and x.part = c.part
               offset 0) k
         where c.rest is null;
        delete from longshore.claim k where k.ctid = any (v_gone);
        get diagnostics v_gone_count = row_count;
        for v_kept in
            select * from unnest(c_number, c_part, c_rest, c_size) as t (number, part, rest, size)
             where t.rest is not null
        loop
            update longshore.claim k set mask = v_kept.rest, size = v_kept.size
             where k.token = p_token and k.number = v_kept.number and k.part = v_kept.part;
            if found then
                v_gone_count := v_gone_count + 1;
            end if;
        end loop;
        if v_gone_count < cardinality(c_number) then
            raise exception 'claims are not as the session knows them' using errcode = 'LS002';
        end if;
    end if;
    if cardinality(f_segment) > 0 then
        insert into longshore.finished
            (segment, lo, hi, size, mask, state, run_at, delivery, attempt, failures, crashes,
             lapses, finished_at, started, finished, worker)
        select t.segment, t.lo, t.hi, t.stop - t.start, t.mask, 'succeeded', t.run_at,
               t.delivery, t.attempt, t.failures, t.crashes, t.lapses,
               case when t.stop - t.start = 1 then p_finished[t.stop]
                    else (select min(x) from unnest(p_finished[t.start + 1 : t.stop]) x) end,
               case when t.stop - t.start = 1 then array[p_started[t.stop]]
                    else p_started[t.start + 1 : t.stop] end,
               case when t.stop - t.start = 1 then array[p_finished[t.stop]]
                    else p_finished[t.start + 1 : t.stop] end,
               p_worker
          from unnest(f_segment, f_lo, f_hi, f_mask, f_run_at, f_delivery, f_attempt,
                      f_failures, f_crashes, f_lapses, f_from, f_to)
               as t (segment, lo, hi, mask, run_at, delivery, attempt, failures, crashes,
                     lapses, start, stop);
        if exists (select from longshore.journal j where j.token = p_token and j.entry < 0) then
            perform longshore.settle_purged(p_token, f_segment);
        end if;
    end if;
    if j_entry is not null then
        insert into longshore.journal
        values (p_token, j_entry, p_now, j_handles, j_deliveries, j_kinds, j_started,
                j_finished);
    end if;
    if cardinality(p_forget) > 0 then
        delete from longshore.journal where token = p_token and entry = any (p_forget);
    end if;
    if cardinality(r_handle) > 0 then
        insert into longshore.result
        select t.handle >> 12, t.handle & 4095, t.result
          from unnest(r_handle, r_result) as t (handle, result);
    end if;
    if p_rare is not null then
        if p_rare ? 'finished' then
            perform longshore.settle_rare(p_token, p_now, p_worker, p_rare);
        end if;
        if p_rare ? 'lines' then
            perform longshore.leave_lines(p_rare -> 'lines', p_now);
        end if;
    end if;
    if cardinality(t_jobs) > 0 then
        insert into longshore.tally values (t_queue, t_tenant, t_state, t_jobs);
        if random() < 0.02 then
            perform longshore.fold(512);
        end if;
    end if;
    if p_body is not null then
        insert into longshore.outbox (at, body) values (p_now, p_body);
    end if;
end
$$;

-- Make due jobs ready: see 0007. Whoever joins a line tells the time.
create or replace function longshore.promote(p_now bigint, p_limit integer)
returns table (
    queue text, type text, tenant text, lo smallint, hi smallint, size smallint, mask bytea,
    ids bytea, types text[], tenants text[]
) language plpgsql
    set lock_timeout = '100ms'
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
    set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
    v_now   bigint := longshore.clock(p_now);
    v_from  bigint := longshore.due_from(v_now);
    v_left  integer := p_limit;
    v_whole tid[] := '{}';
    v_segments bigint[] := '{}';
    v_lined tid[] := '{}';
    v_cut   tid;
    v_due   record;
begin
    for v_round in 1 .. 2 loop
        for v_due in
            select s.ctid as tid, s.size, s.segment, s.line from longshore.scheduled s
             where s.run_at >= v_from and s.run_at <= v_now
             order by s.run_at, s.segment, s.lo for update skip locked
        loop
            exit when v_left <= 0;
            if v_due.size > v_left then
                v_cut := v_due.tid;
                exit;
            end if;
            v_whole := v_whole || v_due.tid;
            v_segments := v_segments || v_due.segment;
            if v_due.line is not null then
                v_lined := v_lined || v_due.tid;
            end if;
            v_left := v_left - v_due.size;
        end loop;
        exit when v_left < p_limit or v_cut is not null or v_round = 2;
        begin
            perform from longshore.scheduled s
              where s.run_at >= v_from and s.run_at <= v_now
              order by s.run_at, s.segment, s.lo limit 1 for update;
            exit when not found;
        exception when lock_not_available then
            return;
        end;
    end loop;
    if v_lined <> '{}' then
        begin
            perform longshore.line_up(array(
                select row(s.segment, s.lo, s.run_at, s.rank, 0, 0, false)::longshore.joining
                  from unnest(v_lined) with ordinality as t (tid, place)
                  join longshore.scheduled s on s.ctid = t.tid
                 order by t.place), v_now);
        exception when lock_not_available then
            -- Someone holds a line in an open transaction: the others need not wait for it.
            v_whole := array(select w from unnest(v_whole) w where w <> all (v_lined));
        end;
    end if;
    return query
    with gone as (
        delete from longshore.scheduled s where s.ctid = any (v_whole) returning s.*
    ), moved as (
        insert into longshore.ready
            (queue, type, rank, segment, lo, hi, size, weight, mask, run_at, delivery, attempt,
             failures, crashes, lapses, is_replayed, types)
        select g.queue, g.type, g.rank, g.segment, g.lo, g.hi, g.size, g.weight, g.mask,
               g.run_at, g.delivery, g.attempt, g.failures, g.crashes, g.lapses,
               g.is_replayed, g.types
          from gone g where g.line is null
    )
    select g.queue, s.type, s.tenant, g.lo, g.hi, g.size, g.mask,
           substring(s.ids from g.lo * 16 + 1 for (g.hi - g.lo) * 16),
           s.types[g.lo + 1 : g.hi], s.tenants[g.lo + 1 : g.hi]
      from gone g cross join lateral (
           select x.* from longshore.segment x where x.segment = g.segment offset 0) s;
    if v_cut is not null and v_left > 0 then
        return query select * from longshore.promote_front(v_cut, v_left);
    end if;
    perform longshore.arrange(v_segments);
end
$$;

-- When the next scheduled job is due, or the next line opens because of its rate; null when there
-- is none.
create or replace function longshore.next_due(p_now bigint, out now bigint, out due bigint)
language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
declare
    c_second constant bigint := 1000000;
    v_begin  timestamptz := clock_timestamp();
    v_from   bigint;
    v_took   bigint;
begin
    now := longshore.clock(p_now);
    v_from := longshore.due_from(now);
    select s.run_at into due from longshore.scheduled s where s.run_at >= v_from
     order by s.run_at limit 1;
    due := least(due, (select l.opens_at from longshore.line l where l.opens_at is not null
                        order by l.opens_at limit 1));
    v_took := extract(epoch from clock_timestamp() - v_begin) * c_second;
    if v_took > c_second / 500 then
        perform setval('longshore.due_from', greatest(least(due, now) - 2 * c_second, 1));
        if v_from = 0 then
            perform setval('longshore.due_all_at', now + greatest(5 * c_second, 20 * v_took));
        end if;
    end if;
end
$$;
