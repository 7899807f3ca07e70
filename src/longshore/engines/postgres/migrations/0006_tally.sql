-- The books: how many jobs are finished, and whether every job is in one place.

-- How many jobs are finished, by queue, tenant and state: the sum of what every change of the
-- spans has added, a row of lists each. Rows are only ever added, so nobody waits for anybody;
-- now and then they are put together.
create table longshore.tally (
    queues  text[]   not null,
    tenants text[]   not null,
    states  text[]   not null,
    jobs    bigint[] not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

create view longshore.tallied as
select x.queue, x.tenant, x.state, x.jobs
  from longshore.tally t, unnest(t.queues, t.tenants, t.states, t.jobs)
       as x (queue, tenant, state, jobs);

-- Put up to p_limit rows of the tally together. Returns how many there were.
create function longshore.fold(p_limit integer) returns integer language plpgsql as $$
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

-- How many jobs of a span are whose.
create function longshore.owners(
    p_segment longshore.segment, p_lo integer, p_hi integer, p_mask bytea, p_size integer
) returns table (tenant text, jobs bigint) language sql stable as $$
    select p_segment.tenant, p_size::bigint where p_segment.tenant <> ''
    union all
    select t.tenant, count(*)
      from unnest(p_segment.tenants[p_lo + 1 : p_hi]) with ordinality as t (tenant, place)
     where p_segment.tenant = '' and longshore.has(p_mask, p_lo + t.place::integer - 1)
     group by t.tenant
$$;

-- Whoever adds finished spans adds to the tally too; what is taken from them is counted here.
create function longshore.count_finished() returns trigger language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
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
$$;
