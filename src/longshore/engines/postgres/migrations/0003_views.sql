-- What people see: where every job is, and all that is known of it.

-- Dead and cancelled jobs are few among millions that succeeded.
create index finished_rare on longshore.finished (state, segment) where state <> 'succeeded';

-- Which of a span's jobs an ordinal is, counted from 1: the place of its times.
create function longshore.nth(p_lo integer, p_mask bytea, p_ordinal integer) returns integer
language sql immutable as $$
    select case when p_mask is null then p_ordinal - p_lo + 1
                else 1 + bit_count(substring(p_mask from 1 for p_ordinal / 8))
                       + bit_count((get_byte(p_mask, p_ordinal / 8)
                                    & ((1 << p_ordinal % 8) - 1))::bit(8)) end::integer
$$;

-- The journals, a row per line.
create view longshore.told as
select j.token, t.handle >> 12 as segment, (t.handle & 4095)::integer as ordinal, t.delivery,
       t.kind, coalesce(t.started, j.at) as started_at, t.finished as finished_at
  from longshore.journal j
 cross join lateral unnest(j.handles, j.deliveries, j.kinds, j.started, j.finished)
       as t (handle, delivery, kind, started, finished);

-- Where the jobs of a segment are: all of them, or the one of p_ordinal. A claimed job that its
-- holder's journal calls finished is where the journal says. `span` is the row in table `home`.
create function longshore.places(p_segment bigint, p_ordinal integer)
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
     where r.segment = p_segment and longshore.has(r.mask, o.ordinal)
    union all
    select r.segment, o.ordinal, 'scheduled', r.ctid, 'scheduled', r.run_at, r.delivery,
           r.attempt, r.failures, r.crashes, r.lapses, null, null, null, null, null,
           r.is_replayed
      from longshore.scheduled r
     cross join lateral generate_series(greatest(r.lo, p_ordinal),
                                        least(r.hi - 1, p_ordinal)) as o (ordinal)
     where r.segment = p_segment and longshore.has(r.mask, o.ordinal)
    union all
    select r.segment, o.ordinal, 'finished', r.ctid, r.state, r.run_at, r.delivery,
           r.attempt, r.failures, r.crashes, r.lapses,
           r.started[longshore.nth(r.lo, r.mask, o.ordinal)],
           r.finished[longshore.nth(r.lo, r.mask, o.ordinal)], r.reason, r.worker, null, false
      from longshore.finished r
     cross join lateral generate_series(greatest(r.lo, p_ordinal),
                                        least(r.hi - 1, p_ordinal)) as o (ordinal)
     where r.segment = p_segment and longshore.has(r.mask, o.ordinal)
    union all
    select c.segment, o.ordinal, 'claim', c.ctid,
           case when t.kind = 1 then 'succeeded' else 'running' end, c.run_at, c.delivery,
           c.attempt + (t.kind is not null)::integer, c.failures, c.crashes, c.lapses,
           t.started_at, t.finished_at, null, w.worker, c.token, false
      from longshore.claim c
      left join longshore.session w on w.token = c.token
     cross join lateral generate_series(greatest(c.lo, p_ordinal),
                                        least(c.hi - 1, p_ordinal)) as o (ordinal)
      left join lateral (
           select t.ordinal, max(t.kind) as kind, max(t.finished_at) as finished_at,
                  coalesce(max(t.started_at) filter (where t.kind = 1),
                           min(t.started_at) filter (where t.kind = 0)) as started_at
             from longshore.told t
            where t.token = c.token and t.segment = c.segment and t.delivery = c.delivery
            group by t.ordinal) t on t.ordinal = o.ordinal
     where c.segment = p_segment and longshore.has(c.mask, o.ordinal)
       and coalesce(t.kind, 0) < 2
$$;

-- Everything known of the jobs of a segment: all of them, or the one of p_ordinal.
create function longshore.seen(p_segment bigint, p_ordinal integer)
returns table (
    segment bigint, ordinal integer, handle bigint, id uuid, type text, queue text,
    tenant text, state text, priority smallint, payload bytea, run_at bigint,
    created_at bigint, max_attempts integer, timeout bigint, delivery integer,
    attempt integer, failures integer, crashes integer, lapses integer, started_at bigint,
    finished_at bigint, result bytea, failure text, reason text, worker text,
    cancel_requested boolean, unique_key text, idempotency_key text, ordering_key text,
    trace text, tags text, home text, span tid, token bigint, last_worker text
) language sql stable as $$
    select p.segment, p.ordinal, p.segment << 12 | p.ordinal,
           encode(substring(s.ids from p.ordinal * 16 + 1 for 16), 'hex')::uuid,
           s.type, s.queue, s.tenant, p.state, s.priority, s.payloads[p.ordinal + 1],
           p.run_at, s.created_at, s.max_attempts, s.timeout, p.delivery, p.attempt,
           p.failures, p.crashes, p.lapses,
           case when p.home in ('finished', 'claim') then p.started_at
                when not p.is_replayed then a.started_at end,
           p.finished_at, x.result, f.failure::text, coalesce(q.reason, p.reason),
           case when p.state = 'running' then p.worker end, q.reason is not null,
           y.own ->> 'unique_key', y.own ->> 'idempotency_key', y.own ->> 'ordering_key',
           y.own ->> 'trace', (y.own -> 'tags')::text, p.home, p.span, p.token, p.worker
      from longshore.places(p_segment, p_ordinal) p
      join longshore.segment s on s.segment = p.segment
     cross join lateral (select s.attributes -> p.ordinal::text as own) y
      left join longshore.result x
        on x.segment = p.segment and x.ordinal = p.ordinal and p.state = 'succeeded'
      left join lateral (
           select a.started_at from longshore.attempt a
            where a.segment = p.segment and a.ordinal = p.ordinal
            order by a.delivery desc limit 1) a on true
      left join lateral (
           select a.failure from longshore.attempt a
            where a.segment = p.segment and a.ordinal = p.ordinal and a.failure is not null
            order by a.delivery desc limit 1) f on true
      left join longshore.request q
        on q.token = p.token and q.handle = (p.segment << 12 | p.ordinal)
       and q.delivery = p.delivery and p.state = 'running'
$$;

create function longshore.moment(p_at bigint) returns timestamptz language sql immutable as $$
    select timestamptz 'epoch' + p_at * interval '1 microsecond'
$$;

-- Every job, for people. `where id = …` and `where segment = …` are lookups.
create view longshore.jobs as
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
       j.tags::jsonb as tags, g.segment, j.ordinal
  from longshore.segment g
 cross join lateral longshore.seen(g.segment, null) j
  join longshore.locator l
    on l.id = j.id and l.segment = g.segment and l.ordinal = j.ordinal;

-- Jobs that are in two places or in none, and spans that contradict themselves. Always empty.
create function longshore.misplaced()
returns table (segment bigint, ordinal integer, id uuid, places text[]) language sql stable as $$
    with span as materialized (
        select 'ready' as home, r.segment, r.lo, r.hi, r.size, r.mask, null::bigint as token,
               r.delivery
          from longshore.ready r
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
        or encode(substring(s.ids from l.ordinal * 16 + 1 for 16), 'hex')::uuid <> l.id
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
$$;

-- Take jobs out of a locked finished span; an empty one is deleted.
create function longshore.take_finished(p_span tid, p_ordinals integer[]) returns void
language plpgsql
    set enable_seqscan = off
as $$
declare
    v_span     longshore.finished;
    v_rest     bytea;
    v_place    integer := 0;
    v_started  bigint[] := '{}';
    v_finished bigint[] := '{}';
begin
    select r.* into strict v_span from longshore.finished r where r.ctid = p_span;
    v_rest := decode(repeat('00', (v_span.hi + 7) / 8), 'hex');
    for i in v_span.lo .. v_span.hi - 1 loop
        continue when not longshore.has(v_span.mask, i);
        v_place := v_place + 1;
        if i <> all (p_ordinals) then
            v_rest := set_bit(v_rest, i, 1);
            v_started := v_started || v_span.started[v_place];
            v_finished := v_finished || v_span.finished[v_place];
        end if;
    end loop;
    if v_finished = '{}' then
        delete from longshore.finished r where r.ctid = p_span;
    else
        update longshore.finished r
           set mask = v_rest, size = cardinality(v_finished), started = v_started,
               finished = v_finished,
               finished_at = (select min(t) from unnest(v_finished) t)
         where r.ctid = p_span;
    end if;
end
$$;

-- Segments, newest first from p_before, that may hold what a listing looks for, until they have
-- p_want jobs. Looks at p_scan spans at most; the next look begins at `beyond`, null at the end.
create function longshore.candidates(
    p_state text, p_queue text, p_type text, p_tenant text, p_tag text, p_before bigint,
    p_want integer, p_scan integer, out segments bigint[], out beyond bigint
) language plpgsql stable
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
    v_segments bigint[];
    v_sizes    integer[];
    v_told     bigint[];
    v_more     integer[];
    v_last     bigint;
begin
    if p_state is null then
        select array_agg(x.segment), array_agg(x.size) into v_segments, v_sizes
          from (select s.segment, s.size from longshore.segment s
                 where s.segment <= p_before order by s.segment desc limit p_scan) x;
    elsif p_state = 'ready' then
        select array_agg(x.segment), array_agg(x.size) into v_segments, v_sizes
          from (select r.segment, r.size from longshore.ready r
                 where r.segment <= p_before order by r.segment desc limit p_scan) x;
    elsif p_state = 'scheduled' then
        select array_agg(x.segment), array_agg(x.size) into v_segments, v_sizes
          from (select r.segment, r.size from longshore.scheduled r
                 where r.segment <= p_before order by r.segment desc limit p_scan) x;
    elsif p_state = 'running' then
        select array_agg(x.segment), array_agg(x.size) into v_segments, v_sizes
          from (select c.segment, c.size from longshore.claim c
                 where c.segment <= p_before order by c.segment desc limit p_scan) x;
    elsif p_state = 'succeeded' then
        select array_agg(x.segment), array_agg(x.size) into v_segments, v_sizes
          from (select f.segment, f.size from longshore.finished f
                 where f.segment <= p_before and f.state = 'succeeded'
                 order by f.segment desc limit p_scan) x;
        select array_agg(x.segment), array_agg(x.size) into v_told, v_more
          from (select t.segment, count(*)::integer as size from longshore.told t
                 where t.segment <= p_before and t.kind = 1
                 group by t.segment order by t.segment desc limit p_scan) x;
    else
        select array_agg(x.segment), array_agg(x.size) into v_segments, v_sizes
          from (select f.segment, f.size from longshore.finished f
                 where f.segment <= p_before and f.state = p_state and f.state <> 'succeeded'
                 order by f.segment desc limit p_scan) x;
    end if;
    -- What one source was asked for in vain is not known of the other.
    if cardinality(v_segments) = p_scan then
        v_last := v_segments[p_scan];
    end if;
    if cardinality(v_told) = p_scan then
        v_last := greatest(v_last, v_told[p_scan]);
    end if;
    with found as (
        select t.segment, sum(t.size) as size
          from unnest(v_segments || v_told, v_sizes || v_more) as t (segment, size)
         where v_last is null or t.segment >= v_last
         group by t.segment
    ), fit as (
        select f.segment, f.size, sum(f.size) over (order by f.segment desc) as total
          from found f join longshore.segment s on s.segment = f.segment
         where (p_queue is null or s.queue = p_queue)
           and (p_type is null or s.type = p_type)
           and (p_tenant is null or s.tenant = p_tenant)
           and (p_tag is null or jsonb_path_exists(
                s.attributes, '$.*.tags[*] ? (@ == $tag)', jsonb_build_object('tag', p_tag)))
    ), enough as materialized (
        select f.segment from fit f where f.total - f.size < p_want
    )
    select array_agg(e.segment),
           case when exists (select from fit f where f.total - f.size >= p_want)
                then min(e.segment) - 1 else v_last - 1 end
      into segments, beyond
      from enough e;
end
$$;

-- How many jobs are finished, by queue, tenant and state: the sum of what every change of the
-- spans has added. Rows are only ever added, so nobody waits for anybody; `fold` adds them up.
create table longshore.tally (
    queue  text collate "C" not null,
    tenant text collate "C" not null,
    state  text   not null,
    jobs   bigint not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

create function longshore.count_finished() returns trigger language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
    if tg_op = 'INSERT' then
        insert into longshore.tally
        select s.queue, s.tenant, n.state, sum(n.size)
          from fresh n join longshore.segment s using (segment)
         group by s.queue, s.tenant, n.state;
    elsif tg_op = 'DELETE' then
        insert into longshore.tally
        select s.queue, s.tenant, o.state, -sum(o.size)
          from former o join longshore.segment s using (segment)
         group by s.queue, s.tenant, o.state;
    else
        insert into longshore.tally
        select s.queue, s.tenant, x.state, sum(x.size)
          from (select n.segment, n.state, n.size from fresh n
                union all
                select o.segment, o.state, -o.size from former o) x
               join longshore.segment s using (segment)
         group by s.queue, s.tenant, x.state;
    end if;
    return null;
end
$$;
create trigger finished_insert after insert on longshore.finished
    referencing new table as fresh
    for each statement execute function longshore.count_finished();
create trigger finished_delete after delete on longshore.finished
    referencing old table as former
    for each statement execute function longshore.count_finished();
create trigger finished_update after update on longshore.finished
    referencing old table as former new table as fresh
    for each statement execute function longshore.count_finished();

-- Put up to p_limit rows of the tally together. Returns how many there were.
create function longshore.fold(p_limit integer) returns integer language plpgsql as $$
declare
    v_count integer;
begin
    with gone as (
        delete from longshore.tally t where t.ctid = any (array(
            select x.ctid from longshore.tally x limit p_limit for update skip locked))
        returning t.*
    ), kept as (
        insert into longshore.tally
        select g.queue, g.tenant, g.state, sum(g.jobs) from gone g
         group by g.queue, g.tenant, g.state having sum(g.jobs) <> 0
    )
    select count(*) into v_count from gone;
    return v_count;
end
$$;
