-- Finished jobs: how many there are, and how they are deleted when they are old.

-- How many jobs are finished, by queue, tenant and state: the sum of what every change of the
-- spans has added, a row of lists each. Rows are only ever added, so nobody waits for anybody;
-- now and then they are put together.
create table longshore.tally (
    queues  text[]   not null,
    tenants text[]   not null,
    states  text[]   not null,
    jobs    bigint[] not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- The tally, a row for each queue, tenant and state that a change tells of.
create view longshore.tallied as
select x.queue, x.tenant, x.state, x.jobs
  from longshore.tally t, unnest(t.queues, t.tenants, t.states, t.jobs)
       as x (queue, tenant, state, jobs);

-- Put up to p_limit rows of the tally together. Returns how many there were.
create function longshore.fold(p_limit integer) returns integer language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_count integer;
begin
    with gone as (
        delete from longshore.tally t where t.ctid = any (array(
            select x.ctid from longshore.tally x limit p_limit for update skip locked))
        returning t.*
    ), total as (
        select x.queue, x.tenant, x.state, sum(x.jobs)::bigint as jobs
          from gone g, unnest(g.queues, g.tenants, g.states, g.jobs)
               as x (queue, tenant, state, jobs)
         group by x.queue, x.tenant, x.state having sum(x.jobs) <> 0
    ), kept as (
        insert into longshore.tally
        select array_agg(t.queue), array_agg(t.tenant), array_agg(t.state), array_agg(t.jobs)
          from total t having count(*) > 0
    )
    select count(*) into v_count from gone;
    return v_count;
end
$$;

-- Count in the tally what is taken from the finished spans. Whoever adds finished spans adds to
-- the tally too.
create function longshore.count_finished() returns trigger language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
    set search_path = pg_catalog, pg_temp
as $$
begin
    if tg_op = 'DELETE' then
        insert into longshore.tally
        select array_agg(g.queue), array_agg(g.tenant), array_agg(g.state), array_agg(g.jobs)
          from (select w.queue, w.tenant, o.state, -sum(w.jobs) as jobs
                  from former o cross join lateral (
                       select s.queue, w.tenant, w.jobs from longshore.segment s
                        cross join lateral longshore.owners(s, o.lo, o.hi, o.mask, o.size) w
                        where s.segment = o.segment offset 0) w
                 group by w.queue, w.tenant, o.state) g
        having count(*) > 0;
    else
        insert into longshore.tally
        select array_agg(g.queue), array_agg(g.tenant), array_agg(g.state), array_agg(g.jobs)
          from (select w.queue, w.tenant, x.state, sum(x.sign * w.jobs) as jobs
                  from (select n.segment, n.state, n.lo, n.hi, n.mask, n.size, 1 as sign
                          from fresh n
                        union all
                        select o.segment, o.state, o.lo, o.hi, o.mask, o.size, -1
                          from former o) x
                 cross join lateral (
                       select s.queue, w.tenant, w.jobs from longshore.segment s
                        cross join lateral longshore.owners(s, x.lo, x.hi, x.mask, x.size) w
                        where s.segment = x.segment offset 0) w
                 group by w.queue, w.tenant, x.state) g
        having count(*) > 0;
    end if;
    return null;
end
$$;
create trigger finished_delete after delete on longshore.finished
    referencing old table as former
    for each statement execute function longshore.count_finished();
create trigger finished_update after update on longshore.finished
    referencing old table as former new table as fresh
    for each statement execute function longshore.count_finished();

-- Take jobs out of a locked finished span; an empty one is deleted.
create function longshore.take_finished(p_span tid, p_ordinals integer[]) returns void
language plpgsql
    set enable_seqscan = off
    set search_path = pg_catalog, pg_temp
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

-- Take the jobs that finished until p_before out of a locked span, at most p_limit of them.
create function longshore.expire_part(
    p_span tid, p_before bigint, p_limit integer,
    out segment bigint, out lo smallint, out hi smallint, out size smallint, out mask bytea,
    out reason text
) language plpgsql
    set enable_seqscan = off
    set search_path = pg_catalog, pg_temp
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
    set search_path = pg_catalog, pg_temp
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
    set search_path = pg_catalog, pg_temp
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

-- The same as longshore.expire_dead, with what the jobs of each span's segment have of their own,
-- by ordinal.
create function longshore.expire_dead_whole(p_before bigint, p_limit integer, p_most bigint)
returns table (
    segment bigint, lo smallint, hi smallint, size smallint, mask bytea, reason text,
    queue text, type text, tenant text, ids bytea, payloads bytea, bounds integer[],
    types text[], tenants text[], attributes text
) language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
    set search_path = pg_catalog, pg_temp
as $$
begin
    return query
    select e.segment, e.lo, e.hi, e.size, e.mask, e.reason, e.queue, e.type, e.tenant, e.ids,
           e.payloads, e.bounds, e.types, e.tenants,
           (select s.attributes::text from longshore.segment s where s.segment = e.segment)
      from longshore.expire_dead(p_before, p_limit, p_most) e;
end
$$;

-- Remove all that is left of jobs whose spans are gone, and of segments without a job.
-- One at a time: two that take the last spans of a segment would each leave it to the other.
-- The ids of a segment are read once, and not once for each of its jobs.
create function longshore.forget(
    p_segment bigint[], p_lo smallint[], p_hi smallint[], p_mask bytea[]
) returns void language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_ids uuid[];
begin
    perform pg_advisory_xact_lock(7813585269108010867);
    select array_agg(encode(substring(s.ids from i * 16 + 1 for 16), 'hex')::uuid) into v_ids
      from unnest(p_segment, p_lo, p_hi, p_mask) as m (segment, lo, hi, mask)
           cross join lateral (
               -- Joined to nothing, so that it is read as a whole: a part is a look of its own.
               select x.ids || ''::bytea as ids
                 from longshore.segment x where x.segment = m.segment offset 0) s,
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

-- Delete for good the jobs that were purged while the spans in which they succeeded were claimed,
-- and which these spans brought back just now.
create function longshore.settle_purged(p_token bigint, p_segments bigint[]) returns void
language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
    set search_path = pg_catalog, pg_temp
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

-- Delete up to p_limit idempotency keys, events and firings that are old enough. Of the events
-- only those that every consumer has passed, if there are any. What others hold is left for the
-- next time.
create function longshore.prune_old(
    p_keys bigint, p_events bigint, p_firings bigint, p_limit integer
) returns integer language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_left  integer := p_limit;
    v_count integer;
    v_floor bigint;
begin
    delete from longshore.idempotency k where k.ctid = any (array(
        select x.ctid from longshore.idempotency x where x.created_at <= p_keys
         order by x.created_at limit v_left for update skip locked));
    get diagnostics v_count = row_count;
    v_left := v_left - v_count;
    select min(c.position) into v_floor from longshore.consumer c where c.gone_at is null;
    if v_floor is not null then
        -- Positions go by age, but for what took long to commit: no more is looked at than may
        -- be deleted.
        select max(y.position) into v_floor from (
            select x.position, x.at from longshore.outbox x
             where x.position is not null and x.position <= v_floor
             order by x.position limit v_left) y
         where y.at <= p_events;
        delete from longshore.outbox o where o.ctid = any (array(
            select x.ctid from longshore.outbox x
             where x.position is not null and x.position <= v_floor and x.at <= p_events
             order by x.position limit v_left for update skip locked));
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
