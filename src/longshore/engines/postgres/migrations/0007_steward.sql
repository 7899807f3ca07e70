-- What the scheduler and the relay ask for: promote, expire, forget, and the outbox in order.

-- The first p_count jobs of a span that has more: where the rest begins, and both masks.
create function longshore.cut(
    p_lo smallint, p_hi smallint, p_mask bytea, p_count integer,
    out at smallint, out front bytea, out rest bytea
) language plpgsql immutable as $$
declare
    v_taken integer := 0;
begin
    if p_mask is null then
        at := p_lo + p_count;
        return;
    end if;
    at := p_lo;
    front := p_mask;
    rest := p_mask;
    while v_taken < p_count loop
        v_taken := v_taken + get_bit(p_mask, at);
        rest := set_bit(rest, at, 0);
        at := at + 1;
    end loop;
    for i in at .. p_hi - 1 loop
        front := set_bit(front, i, 0);
    end loop;
end
$$;

-- Promoted jobs leave the front of the index by due time. While an old snapshot is open their
-- entries stay there, and a look for the next job would pass over all of them: 250 ms for a
-- million. So a look that took long notes from where on the next ones begin, and when one of
-- them has to see all: a transaction that was open for long may bring jobs due before that.
-- Notes are sequences, since whoever looks waits for nobody.
create sequence longshore.due_from;
create sequence longshore.due_all_at;

create function longshore.due_from(p_now bigint) returns bigint language sql volatile as $$
    select case when p_now < n.all_at and p_now >= n.due_from then n.due_from else 0 end
      from (select coalesce(pg_sequence_last_value('longshore.due_from'), 0) as due_from,
                   coalesce(pg_sequence_last_value('longshore.due_all_at'), 0) as all_at) n
$$;

-- When the next scheduled job is due; null when there is none.
create function longshore.next_due(p_now bigint, out now bigint, out due bigint)
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
                 order by t.place));
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

-- Take up to p_limit jobs that finished until p_before out of the finished spans; whoever calls
-- has to forget them. Returns them as spans. Payloads, if they are asked for, stay below p_most
-- bytes together, but one span passes.
create function longshore.expire(
    p_state text, p_before bigint, p_limit integer, p_most bigint
) returns table (
    segment bigint, lo smallint, hi smallint, size smallint, mask bytea, reason text
) language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
    set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
    v_left  integer := p_limit;
    v_bytes bigint := 0;
    v_whole tid[] := '{}';
    v_span  record;
begin
    for v_span in
        select f.ctid as tid, f.size, f.size::bigint * s.weight as bytes,
               (select max(t) from unnest(f.finished) t) as latest
          from longshore.finished f cross join lateral (
               select x.weight from longshore.segment x
                where x.segment = f.segment offset 0) s
         where f.state = p_state and f.finished_at <= p_before
         order by f.finished_at
           for update of f skip locked
    loop
        exit when v_left <= 0 or (v_bytes > 0 and v_bytes + v_span.bytes > p_most);
        v_bytes := v_bytes + v_span.bytes;
        if v_span.latest <= p_before and v_span.size <= v_left then
            v_whole := v_whole || v_span.tid;
            v_left := v_left - v_span.size;
        else
            select e.* into segment, lo, hi, size, mask, reason
              from longshore.expire_part(v_span.tid, p_before, v_left) e;
            v_left := v_left - size;
            return next;
        end if;
    end loop;
    return query
    delete from longshore.finished f where f.ctid = any (v_whole)
    returning f.segment, f.lo, f.hi, f.size, f.mask, f.reason;
end
$$;

-- Take the jobs that finished until p_before out of a locked span, at most p_limit of them.
create function longshore.expire_part(
    p_span tid, p_before bigint, p_limit integer,
    out segment bigint, out lo smallint, out hi smallint, out size smallint, out mask bytea,
    out reason text
) language plpgsql
    set enable_seqscan = off
as $$
declare
    v_span     longshore.finished;
    v_rest     bytea;
    v_place    integer := 0;
    v_started  bigint[] := '{}';
    v_finished bigint[] := '{}';
begin
    select f.* into v_span from longshore.finished f where f.ctid = p_span;
    segment := v_span.segment;
    lo := v_span.lo;
    hi := v_span.hi;
    size := 0;
    mask := decode(repeat('00', (hi + 7) / 8), 'hex');
    reason := v_span.reason;
    v_rest := mask;
    for i in lo .. hi - 1 loop
        continue when not longshore.has(v_span.mask, i);
        v_place := v_place + 1;
        if size < p_limit and v_span.finished[v_place] <= p_before then
            mask := set_bit(mask, i, 1);
            size := size + 1;
        else
            v_rest := set_bit(v_rest, i, 1);
            v_started := v_started || v_span.started[v_place];
            v_finished := v_finished || v_span.finished[v_place];
        end if;
    end loop;
    update longshore.finished f
       set mask = v_rest, size = v_span.size - expire_part.size, finished = v_finished,
           started = case when v_span.started is not null then v_started end,
           finished_at = (select min(t) from unnest(v_finished) t)
     where f.ctid = p_span;
end
$$;

-- Remove all that is left of jobs whose spans are gone, and of segments without a job.
-- One at a time: two that take the last spans of a segment would each leave it to the other.
create function longshore.forget(
    p_segment bigint[], p_lo smallint[], p_hi smallint[], p_mask bytea[]
) returns void language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
    v_ids uuid[];
begin
    perform pg_advisory_xact_lock(7813585269108010867);
    select array_agg(encode(substring(s.ids from i * 16 + 1 for 16), 'hex')::uuid) into v_ids
      from unnest(p_segment, p_lo, p_hi, p_mask) as m (segment, lo, hi, mask)
           cross join lateral (
               select x.ids from longshore.segment x where x.segment = m.segment offset 0) s,
           generate_series(m.lo, m.hi - 1) i
     where longshore.has(m.mask, i);
    delete from longshore.locator l where l.id = any (v_ids);
    -- A submit that holds such a row in an open transaction gives the key to another job.
    delete from longshore.uniqueness u where u.ctid = any (array(
        select k.ctid from longshore.uniqueness k where k.id = any (v_ids)
           for update skip locked));
    delete from longshore.result r where r.ctid = any (array(
        select x.ctid
          from unnest(p_segment, p_lo, p_hi, p_mask) as m (segment, lo, hi, mask)
         cross join lateral (
               select x.ctid from longshore.result x
                where x.segment = m.segment and x.ordinal >= m.lo and x.ordinal < m.hi
                  and longshore.has(m.mask, x.ordinal) offset 0) x));
    delete from longshore.attempt a where a.ctid = any (array(
        select x.ctid
          from unnest(p_segment, p_lo, p_hi, p_mask) as m (segment, lo, hi, mask)
         cross join lateral (
               select x.ctid from longshore.attempt x
                where x.segment = m.segment and x.ordinal >= m.lo and x.ordinal < m.hi
                  and longshore.has(m.mask, x.ordinal) offset 0) x));
    delete from longshore.progress g where g.ctid = any (array(
        select x.ctid
          from unnest(p_segment, p_lo, p_hi, p_mask) as m (segment, lo, hi, mask)
         cross join lateral (
               select x.ctid from longshore.progress x
                where x.segment = m.segment and x.ordinal >= m.lo and x.ordinal < m.hi
                  and longshore.has(m.mask, x.ordinal) offset 0) x));
    delete from longshore.segment s
     where s.segment = any (p_segment)
       and not exists (
           select from longshore.finished x where x.segment = s.segment offset 0)
       and not exists (
           select from longshore.claim x where x.segment = s.segment offset 0)
       and not exists (
           select from longshore.ready x where x.segment = s.segment offset 0)
       and not exists (
           select from longshore.scheduled x where x.segment = s.segment offset 0)
       and not exists (
           select from longshore.parked x where x.segment = s.segment offset 0);
end
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

-- Jobs that were deleted while the spans in which they succeeded were claimed, and which these
-- spans brought back just now, go for good.
create function longshore.settle_purged(p_token bigint, p_segments bigint[]) returns void
language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
    v_part record;
begin
    for v_part in
        select f.ctid as span, f.segment, array_agg(t.ordinal) as ordinals,
               array_agg(j.entry) as entries
          from longshore.journal j
         cross join lateral (
               select j.handles[1] >> 12 as segment, (j.handles[1] & 4095)::integer as ordinal,
                      j.deliveries[1] as delivery) t
          join longshore.finished f
            on f.segment = t.segment and f.delivery = t.delivery and f.state = 'succeeded'
           and t.ordinal >= f.lo and t.ordinal < f.hi and longshore.has(f.mask, t.ordinal)
         where j.token = p_token and j.entry < 0 and j.kinds[1] = 3
           and t.segment = any (p_segments)
         group by f.ctid, f.segment
    loop
        perform longshore.take_finished(v_part.span, v_part.ordinals);
        delete from longshore.journal j
         where j.token = p_token and j.entry = any (v_part.entries);
        perform longshore.forget(array[v_part.segment], array[0::smallint],
                                 array[0::smallint], array[null::bytea]);
    end loop;
end
$$;

-- Take dead jobs out of the finished spans, as expire does, with what an audit needs.
create function longshore.expire_dead(p_before bigint, p_limit integer, p_most bigint)
returns table (
    segment bigint, lo smallint, hi smallint, size smallint, mask bytea, reason text,
    queue text, type text, tenant text, ids bytea, payloads bytea, bounds integer[],
    types text[], tenants text[]
) language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
    return query
    select e.segment, e.lo, e.hi, e.size, e.mask, e.reason, s.queue, s.type, s.tenant,
           substring(s.ids from e.lo * 16 + 1 for (e.hi - e.lo) * 16),
           substring(s.payloads from s.bounds[e.lo + 1] + 1
                     for s.bounds[e.hi + 1] - s.bounds[e.lo + 1]),
           s.bounds[e.lo + 1 : e.hi + 1], s.types[e.lo + 1 : e.hi], s.tenants[e.lo + 1 : e.hi]
      from longshore.expire('dead', p_before, p_limit, p_most) e
     cross join lateral (
        select x.* from longshore.segment x where x.segment = e.segment offset 0) s;
end
$$;

-- Delete up to p_limit idempotency keys, events and firings that are old enough. Of the events
-- only those that are shipped, if there is a relay. What others hold is left for the next time.
create function longshore.prune_old(
    p_keys bigint, p_events bigint, p_firings bigint, p_limit integer
) returns integer language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
declare
    v_left  integer := p_limit;
    v_count integer;
begin
    delete from longshore.idempotency k where k.ctid = any (array(
        select x.ctid from longshore.idempotency x where x.created_at <= p_keys
         order by x.created_at limit v_left for update skip locked));
    get diagnostics v_count = row_count;
    v_left := v_left - v_count;
    if exists (select from longshore.fact f where f.name = 'relay') then
        delete from longshore.outbox o where o.ctid = any (array(
            select x.ctid from longshore.outbox x
             where x.published_at is not null and x.at <= p_events
             order by x.at limit v_left for update skip locked));
    else
        delete from longshore.outbox o where o.ctid = any (array(
            select x.ctid from longshore.outbox x where x.at <= p_events
             order by x.at limit v_left for update skip locked));
    end if;
    get diagnostics v_count = row_count;
    v_left := v_left - v_count;
    delete from longshore.firing f where f.ctid = any (array(
        select x.ctid from longshore.firing x where x.due <= p_firings
         order by x.due limit v_left for update skip locked));
    get diagnostics v_count = row_count;
    return p_limit - v_left + v_count;
end
$$;

-- Give positions to up to p_limit rows of the outbox that have none. One reader at a time, and
-- each looks after the one before has committed: what is seen later comes later.
create function longshore.stamp(p_limit integer) returns void language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
    set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
    if exists (select from longshore.outbox o where o.position is null) then
        perform pg_advisory_xact_lock(7813585269108010868);
        with fresh as materialized (
            select o.number from longshore.outbox o where o.position is null
             order by o.number limit p_limit
        ), placed as materialized (
            select f.number, nextval('longshore.outbox_position') as position from fresh f
        )
        update longshore.outbox o set position = p.position from placed p
         where o.number = p.number;
    end if;
end
$$;

create function longshore.events(p_after bigint, p_limit integer)
returns table (place bigint, told_at bigint, groups bytea) language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
begin
    perform longshore.stamp(p_limit);
    return query
    select o.position, o.at, o.body from longshore.outbox o
     where o.position is not null and o.position > p_after
     order by o.position limit p_limit;
end
$$;

-- What no relay has marked. From now on, there is one: what it has not marked is kept.
create function longshore.unpublished(p_limit integer)
returns table (place bigint, told_at bigint, groups bytea) language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
begin
    insert into longshore.fact (name, value) values ('relay', 'seen') on conflict do nothing;
    perform longshore.stamp(p_limit);
    return query
    select o.position, o.at, o.body from longshore.outbox o
     where o.position is not null and o.published_at is null
     order by o.position + 0 limit p_limit;
end
$$;

-- Said twice, a position bounds whichever index is read.
create function longshore.published(p_now bigint, p_positions bigint[]) returns void
language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
as $$
begin
    update longshore.outbox o set published_at = longshore.clock(p_now)
     where o.ctid = any (array(
           select x.ctid from unnest(p_positions) p cross join lateral (
                  select x.ctid from longshore.outbox x
                   where x.position = p and x.position + 0 = p
                     and x.published_at is null offset 0) x));
end
$$;
