-- Promote: scheduled jobs that are due become ready.

-- Where the search for due jobs begins, and until when that holds: while an old snapshot is open,
-- entries of jobs that were promoted stay at the front of the index.
create sequence longshore.due_from;
create sequence longshore.due_all_at;

-- From which time on due jobs are looked for; 0: from the beginning.
create function longshore.due_from(p_now bigint) returns bigint language sql volatile
begin atomic
    select case when p_now < n.all_at and p_now >= n.due_from then n.due_from else 0 end
      from (select coalesce(pg_sequence_last_value('longshore.due_from'), 0) as due_from,
                   coalesce(pg_sequence_last_value('longshore.due_all_at'), 0) as all_at) n;
end;

-- When the next scheduled job is due, or the next line opens because of its rate; null when there
-- is none.
create function longshore.next_due(p_now bigint, out now bigint, out due bigint)
language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
    set search_path = pg_catalog, pg_temp
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

-- Make up to p_limit due jobs ready, earliest due first: whole spans, and the front of the one
-- that would be too much. Returns the spans, with the ids from `lo` to `hi`.
-- What other schedulers hold is passed over. If that is all there is, they are waited for: they
-- may leave some.
create function longshore.promote(p_now bigint, p_limit integer)
returns table (
    queue text, type text, tenant text, lo smallint, hi smallint, size smallint, mask bytea,
    ids bytea, types text[], tenants text[]
) language plpgsql
    set lock_timeout = '100ms'
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
    set enable_hashjoin = off set enable_mergejoin = off
    set search_path = pg_catalog, pg_temp
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

-- Make the first p_count jobs of a locked scheduled span ready, which has more.
create function longshore.promote_front(p_span tid, p_count integer)
returns table (
    queue text, type text, tenant text, lo smallint, hi smallint, size smallint, mask bytea,
    ids bytea, types text[], tenants text[]
) language plpgsql
    set enable_seqscan = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_span  longshore.scheduled;
    v_parts record;
begin
    select s.* into v_span from longshore.scheduled s where s.ctid = p_span;
    v_parts := longshore.cut(v_span.lo, v_span.hi, v_span.mask, p_count);
    update longshore.scheduled s
       set lo = v_parts.at, size = v_span.size - p_count, mask = v_parts.rest
     where s.ctid = p_span;
    insert into longshore.ready
        (queue, type, rank, segment, lo, hi, size, weight, mask, run_at, delivery, attempt,
         failures, crashes, lapses, is_replayed, types)
    values (v_span.queue, v_span.type, v_span.rank, v_span.segment, v_span.lo, v_parts.at,
            p_count, v_span.weight, v_parts.front, v_span.run_at, v_span.delivery,
            v_span.attempt, v_span.failures, v_span.crashes, v_span.lapses,
            v_span.is_replayed, v_span.types);
    perform longshore.arrange(array[v_span.segment]);
    return query
    select v_span.queue, s.type, s.tenant, v_span.lo, v_parts.at, p_count::smallint,
           v_parts.front,
           substring(s.ids from v_span.lo * 16 + 1 for (v_parts.at - v_span.lo) * 16),
           s.types[v_span.lo + 1 : v_parts.at], s.tenants[v_span.lo + 1 : v_parts.at]
      from longshore.segment s where s.segment = v_span.segment;
end
$$;

-- The same as longshore.promote, with what the jobs of each span's segment have of their own, by
-- ordinal: one job of the span leads to its segment. That is not the one at `lo`, if it has left
-- the span: it may have been forgotten, and its id used again.
create function longshore.promote_whole(p_now bigint, p_limit integer)
returns table (
    queue text, type text, tenant text, lo smallint, hi smallint, size smallint, mask bytea,
    ids bytea, types text[], tenants text[], attributes text
) language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
    set search_path = pg_catalog, pg_temp
as $$
begin
    return query
    select p.queue, p.type, p.tenant, p.lo, p.hi, p.size, p.mask, p.ids, p.types, p.tenants,
           (select s.attributes::text from longshore.segment s where s.segment = (
                select l.segment from longshore.locator l where l.id = (
                    select encode(substring(p.ids from (o.ordinal - p.lo) * 16 + 1 for 16),
                                  'hex')::uuid
                      from generate_series(p.lo::integer, p.hi - 1) as o (ordinal)
                     where longshore.has(p.mask, o.ordinal) limit 1)))
      from longshore.promote(p_now, p_limit) p;
end
$$;
