-- What people see: where every job is, and all that is known of it.

-- Where the jobs of a segment are: all of them, or the one of p_ordinal. A claimed job that its
-- holder's journal calls finished is where the journal says. `span` is the row in table `home`.
-- That ordinals lie between `lo` and `hi` is said twice: the planner thinks of fewer rows then.
create function longshore.places(p_segment bigint, p_ordinal integer)
returns table (
    segment bigint, ordinal integer, home text, span tid, state text, run_at bigint,
    delivery integer, attempt integer, failures integer, crashes integer, lapses integer,
    started_at bigint, finished_at bigint, reason text, worker text, token bigint,
    is_replayed boolean
) language sql stable
begin atomic
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
       and longshore.has(c.mask, o.ordinal) and coalesce(t.kind, 0) < 2;
end;

-- All that is known of a job. `home` and `span` say where it is; `token` is its holder's.
create type longshore.known as (
    segment bigint, ordinal integer, handle bigint, id uuid, type text, queue text,
    tenant text, state text, priority smallint, payload bytea, run_at bigint,
    created_at bigint, max_attempts integer, timeout bigint, delivery integer,
    attempt integer, failures integer, crashes integer, lapses integer, started_at bigint,
    finished_at bigint, result bytea, failure text, reason text, worker text,
    cancel_requested boolean, unique_key text, idempotency_key text, ordering_key text,
    trace text, tags text, home text, span tid, token bigint, last_worker text,
    progress double precision, progress_message text, progress_at bigint
);

-- All that is known of the jobs of a segment: of every one, or of that of p_ordinal, whose
-- payload a caller may have at hand.
-- With more than eight relations to join the server no longer looks for their best order, and
-- `where id = …` on the view would read every segment: hence the last failure and the last start
-- are not joined.
create function longshore.seen(
    p_segment bigint, p_ordinal integer default null, p_payload bytea default null
) returns setof longshore.known language sql stable
begin atomic
    select p.segment, p.ordinal, p.segment << 12 | p.ordinal,
           encode(substring(s.ids from p.ordinal * 16 + 1 for 16), 'hex')::uuid,
           coalesce(s.types[p.ordinal + 1], s.type), s.queue,
           coalesce(s.tenants[p.ordinal + 1], s.tenant), p.state, s.priority,
           coalesce(p_payload, longshore.payload(s.payloads, s.bounds, p.ordinal)),
           p.run_at, s.created_at, s.max_attempts, s.timeout, p.delivery, p.attempt,
           p.failures, p.crashes, p.lapses,
           case when p.home in ('finished', 'claim') then p.started_at
                when not p.is_replayed then (
                    select a.started_at from longshore.attempt a
                     where a.segment = p.segment and a.ordinal = p.ordinal
                     order by a.delivery desc limit 1) end,
           p.finished_at, x.result, (
               select a.failure from longshore.attempt a
                where a.segment = p.segment and a.ordinal = p.ordinal and a.failure is not null
                order by a.delivery desc limit 1)::text, coalesce(q.reason, p.reason),
           case when p.state = 'running' then p.worker end, q.reason is not null,
           y.keys ->> 'unique_key', y.keys ->> 'idempotency_key', y.keys ->> 'ordering_key',
           y.own ->> 'trace', (y.own -> 'tags')::text, p.home, p.span, p.token, p.worker,
           g.fraction, g.message, g.at
      from longshore.places(p_segment, p_ordinal) p
     cross join lateral (
           select x.* from longshore.segment x where x.segment = p.segment offset 0) s
     cross join lateral (select s.keys -> p.ordinal::text as keys,
                                s.attributes -> p.ordinal::text as own) y
      left join lateral (
           select x.result from longshore.result x
            where x.segment = p.segment and x.ordinal = p.ordinal offset 0) x
        on p.state = 'succeeded'
      left join lateral (
           select q.reason from longshore.request q
            where q.token = p.token and q.handle = (p.segment << 12 | p.ordinal)
              and q.delivery = p.delivery offset 0) q on p.state = 'running'
      left join lateral (
           select g.fraction, g.message, g.at from longshore.progress g
            where g.segment = p.segment and g.ordinal = p.ordinal
              and g.delivery = p.delivery offset 0) g on true;
end;

-- In which segments the jobs of these ids are.
create function longshore.placed(p_ids uuid[]) returns setof longshore.locator
language sql stable
begin atomic
    select l.* from unnest(p_ids) as w (id) cross join lateral (
           select x.* from longshore.locator x where x.id = w.id offset 0) l;
end;

-- All that is known of the jobs of these ids, of those that the tenant may see.
create function longshore.look(p_ids uuid[], p_tenant text) returns setof longshore.known
language plpgsql stable
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
    set search_path = pg_catalog, pg_temp
as $$
begin
    return query
    select j.*
      from longshore.placed(p_ids) l
     cross join lateral longshore.seen(l.segment, l.ordinal) j
     where p_tenant is null or j.tenant = p_tenant;
end
$$;

-- Lock the spans in which these jobs wait or lie, and the sessions that hold them: they stay as
-- they are until the transaction ends. A session is a row with its token alone.
create function longshore.hold(p_ids uuid[])
returns table (
    home text, span tid, token bigint, segment bigint, lo smallint, hi smallint, mask bytea,
    run_at bigint, rank bigint, is_replayed boolean
) language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_segments bigint[];
    v_handles  bigint[];
begin
    select array_agg(distinct l.segment), array_agg(l.segment << 12 | l.ordinal)
      into v_segments, v_handles
      from longshore.placed(p_ids) l;
    return query
    select 'ready', r.ctid, null::bigint, r.segment, r.lo, r.hi, r.mask, r.run_at, r.rank,
           r.is_replayed
      from longshore.ready r
     where r.segment = any (v_segments)
       and longshore.has_any(r.segment, r.lo, r.hi, r.mask, v_handles)
     order by r.segment, r.hi for update;
    return query
    select 'scheduled', r.ctid, null::bigint, r.segment, r.lo, r.hi, r.mask, r.run_at, r.rank,
           r.is_replayed
      from longshore.scheduled r
     where r.segment = any (v_segments)
       and longshore.has_any(r.segment, r.lo, r.hi, r.mask, v_handles)
     order by r.segment, r.hi for update;
    return query
    select 'finished', r.ctid, null::bigint, r.segment, r.lo, r.hi, r.mask, r.run_at, r.rank,
           false
      from longshore.finished r
     where r.segment = any (v_segments)
       and longshore.has_any(r.segment, r.lo, r.hi, r.mask, v_handles)
     order by r.segment, r.hi for update;
    return query
    select 'claim', null::tid, s.token, null::bigint, null::smallint, null::smallint,
           null::bytea, null::bigint, null::bigint, null::boolean
      from longshore.session s
     where s.token = any (array(
           select c.token from longshore.claim c
            where c.segment = any (v_segments)
              and longshore.has_any(c.segment, c.lo, c.hi, c.mask, v_handles)))
     order by s.token for share;
    perform longshore.hold_lines(v_handles);
    return query
    select 'parked', r.ctid, null::bigint, r.segment, r.ordinal, (r.ordinal + 1)::smallint,
           null::bytea, r.run_at, r.rank, r.is_replayed
      from longshore.parked r
     where r.segment = any (v_segments) and (r.segment << 12 | r.ordinal) = any (v_handles)
     order by r.segment, r.ordinal for update;
end
$$;

-- Whether a listing may find something in a segment.
create function longshore.fits(
    p_segment longshore.segment, p_queue text, p_type text, p_tenant text, p_tag text
) returns boolean language sql stable
begin atomic
    select (p_queue is null or p_segment.queue = p_queue)
       and (p_type is null or p_segment.type = p_type or p_type = any (p_segment.types))
       and (p_tenant is null or p_segment.tenant = p_tenant
            or p_tenant = any (p_segment.tenants))
       and (p_tag is null or coalesce(jsonb_path_exists(
            p_segment.attributes, '$.*.tags[*] ? (@ == $tag)',
            jsonb_build_object('tag', p_tag)), false));
end;

-- Segments, newest first from p_before, that may hold what a listing looks for, until they have
-- p_want jobs. Looks at p_scan spans at most; the next look begins at `beyond`, null at the end.
create function longshore.candidates(
    p_state text, p_queue text, p_type text, p_tenant text, p_tag text, p_before bigint,
    p_want integer, p_scan integer, out segments bigint[], out beyond bigint
) language plpgsql stable
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
    set search_path = pg_catalog, pg_temp
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
                 where s.segment <= p_before
                 order by s.segment desc limit p_scan) x;
    elsif p_state = 'ready' then
        select array_agg(x.segment), array_agg(x.size) into v_segments, v_sizes
          from (select r.segment, r.size from longshore.ready r
                 where r.segment <= p_before
                 order by r.segment desc limit p_scan) x;
        select array_agg(x.segment), array_agg(x.size) into v_told, v_more
          from (select r.segment, count(*)::integer as size from longshore.parked r
                 where r.segment <= p_before
                 group by r.segment order by r.segment desc limit p_scan) x;
    elsif p_state = 'scheduled' then
        select array_agg(x.segment), array_agg(x.size) into v_segments, v_sizes
          from (select r.segment, r.size from longshore.scheduled r
                 where r.segment <= p_before
                 order by r.segment desc limit p_scan) x;
    elsif p_state = 'running' then
        select array_agg(x.segment), array_agg(x.size) into v_segments, v_sizes
          from (select c.segment, c.size from longshore.claim c
                 where c.segment <= p_before
                 order by c.segment desc limit p_scan) x;
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
    -- What lies behind the last span of a source is not known.
    if cardinality(v_segments) = p_scan then
        v_last := v_segments[p_scan];
    end if;
    if cardinality(v_told) = p_scan then
        v_last := greatest(v_last, v_told[p_scan]);
    end if;
    with found as (
        select t.segment, sum(t.size) as size
          from unnest(v_segments || v_told, v_sizes || v_more) as t (segment, size)
         where (v_last is null or t.segment >= v_last)
           and (select longshore.fits(s, p_queue, p_type, p_tenant, p_tag)
                  from longshore.segment s where s.segment = t.segment)
         group by t.segment
    ), counted as materialized (
        select f.segment, sum(f.size) over (order by f.segment desc) - f.size as before
          from found f
    )
    select array_agg(c.segment) filter (where c.before < p_want),
           case when bool_or(c.before >= p_want)
                then min(c.segment) filter (where c.before < p_want) - 1 else v_last - 1 end
      into segments, beyond
      from counted c;
end
$$;

-- Some jobs of a listing, newest first, below the handle p_before: at most p_limit, after a look
-- at p_scan spans at most. The next look begins at segment `beyond`. If none is found there is
-- one row without a job.
-- A segment's payloads are read once for all its jobs.
create function longshore.find(
    p_state text, p_queue text, p_type text, p_tenant text, p_tag text, p_before bigint,
    p_limit integer, p_scan integer
) returns table (beyond bigint, job longshore.known) language plpgsql stable
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_look   record;
    v_places bigint[];
begin
    v_look := longshore.candidates(p_state, p_queue, p_type, p_tenant, p_tag,
                                   (p_before - 1) >> 12, p_limit, p_scan);
    v_places := array(
        select p.segment << 12 | p.ordinal
          from unnest(v_look.segments) as g (segment)
         cross join lateral (
               select x.* from longshore.segment x where x.segment = g.segment offset 0) s
         cross join lateral longshore.places(g.segment, null) p
         where (p.segment << 12 | p.ordinal) < p_before
           and (p_state is null or p.state = p_state)
           and (p_type is null or coalesce(s.types[p.ordinal + 1], s.type) = p_type)
           and (p_tenant is null or coalesce(s.tenants[p.ordinal + 1], s.tenant) = p_tenant)
           and (p_tag is null or s.attributes -> p.ordinal::text -> 'tags' ? p_tag)
         order by p.segment desc, p.ordinal desc limit p_limit);
    if v_places = '{}' then
        return query select v_look.beyond, null::longshore.known;
        return;
    end if;
    return query
    with picked as materialized (
        select h >> 12 as segment, (h & 4095)::integer as ordinal
          from unnest(v_places) h
    ), content as materialized (
        select g.segment, o.ordinal, longshore.payload(y.payloads, s.bounds, o.ordinal) as payload
          from (select p.segment, array_agg(p.ordinal) as ordinals from picked p
                 group by p.segment) g
         cross join lateral (
               select x.* from longshore.segment x where x.segment = g.segment offset 0) s
         cross join lateral (select s.payloads || '' as payloads offset 0) y
         cross join lateral unnest(g.ordinals) as o (ordinal)
    )
    select v_look.beyond, j
      from content y
     cross join lateral longshore.seen(y.segment, y.ordinal, y.payload) j
     order by y.segment desc, y.ordinal desc;
end
$$;

-- Bytes as text if they are UTF-8, else as `\x` and hexadecimal digits: one job with strange bytes
-- does not keep people from reading the others. Text with a zero is none for the server, and one
-- whose database has another encoding may lack a character.
create function longshore.readable(p_bytes bytea) returns text
language plpgsql immutable strict
    set search_path = pg_catalog, pg_temp
as $$
begin
    return convert_from(p_bytes, 'UTF8');
exception
    when character_not_in_repertoire or untranslatable_character then
        return '\x' || encode(p_bytes, 'hex');
end
$$;

-- A duration for people. These are made of floating point numbers: those of the last thousand
-- microseconds that a bigint can count would be rounded up to more than there can be.
create function longshore.span(p_microseconds bigint) returns interval
language sql immutable
begin atomic
    select case when p_microseconds > 9223372036854774784 then 9223372036854774784
                else p_microseconds end * interval '1 microsecond';
end;

-- A time for people.
create function longshore.moment(p_at bigint) returns timestamptz
language sql immutable
begin atomic
    select timestamptz 'epoch' + longshore.span(p_at);
end;

-- Every job, for people. `where id = …` and `where segment = …` are lookups. (`+ 0` keeps the
-- planner from looking for a segment among all locators.)
create view longshore.jobs as
select l.id, j.state, j.queue, j.type, j.tenant, j.priority,
       longshore.readable(j.payload) collate "C" as payload,
       longshore.moment(j.run_at) as run_at,
       longshore.moment(j.created_at) as created_at,
       longshore.moment(j.started_at) as started_at,
       longshore.moment(j.finished_at) as finished_at,
       j.delivery, j.attempt, j.failures, j.crashes, j.lapses, j.max_attempts,
       longshore.span(j.timeout) as timeout,
       longshore.readable(j.result) collate "C" as result, j.failure::jsonb as failure,
       j.reason, j.worker, j.cancel_requested, j.unique_key, j.idempotency_key, j.ordering_key,
       j.trace, j.tags::jsonb as tags, g.segment, j.ordinal,
       j.progress, j.progress_message, longshore.moment(j.progress_at) as progress_at,
       case when j.home = 'parked' then 'line' end as parked
  from longshore.segment g
 cross join lateral longshore.seen(g.segment) j
  join longshore.locator l
    on l.id = j.id and l.segment + 0 = g.segment and l.ordinal = j.ordinal;

-- Jobs that are in two places or in none, spans that contradict themselves, and lines that count
-- wrongly. Always empty.
create function longshore.misplaced()
returns table (segment bigint, ordinal integer, id uuid, places text[]) language sql stable
begin atomic
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
                   or (p.home = 'scheduled' and p.delivery > 0)));
end;
