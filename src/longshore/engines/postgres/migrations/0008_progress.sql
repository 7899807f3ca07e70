-- How far jobs say they are.
-- longshore: works-with 0007

-- The last report of a job, which counts as long as the job is in that delivery. In a table of
-- its own: jobs that never report are claimed and settled as if there were none.
create table longshore.progress (
    segment  bigint   not null,
    ordinal  smallint not null,
    delivery integer  not null,
    fraction double precision not null,
    message  text,
    at       bigint   not null,
    primary key (segment, ordinal)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);

-- As before, and reports are kept. Of each job there is one at most.
create or replace function longshore.settle_rare(
    p_token bigint, p_now bigint, p_worker text, p_rare jsonb
) returns void language plpgsql as $$
begin
    insert into longshore.scheduled
        (run_at, segment, lo, hi, size, weight, mask, queue, type, types, rank, delivery,
         attempt, failures, crashes, lapses)
    select p_now + t.delay, t.segment, t.lo, t.hi, t.size, t.weight, decode(t.mask, 'hex'),
           t.queue, t.type, t.types, t.rank, t.delivery, t.attempt, t.failures, t.crashes,
           t.lapses
      from jsonb_to_recordset(p_rare -> 'scheduled') as t (
           delay bigint, segment bigint, lo smallint, hi smallint, size smallint,
           weight integer, mask text, queue text, type text, types text[], rank bigint,
           delivery integer, attempt integer, failures integer, crashes integer,
           lapses integer);
    insert into longshore.ready
        (queue, type, types, rank, segment, lo, hi, size, weight, mask, run_at, delivery,
         attempt, failures, crashes, lapses)
    select t.queue, t.type, t.types, t.rank, t.segment, t.lo, t.hi, t.size, t.weight,
           decode(t.mask, 'hex'), t.run_at, t.delivery, t.attempt, t.failures, t.crashes,
           t.lapses
      from jsonb_to_recordset(p_rare -> 'ready') as t (
           run_at bigint, segment bigint, lo smallint, hi smallint, size smallint,
           weight integer, mask text, queue text, type text, types text[], rank bigint,
           delivery integer, attempt integer, failures integer, crashes integer,
           lapses integer);
    if found then
        perform pg_notify('longshore', '');
    end if;
    insert into longshore.finished
        (segment, lo, hi, size, mask, state, run_at, delivery, attempt, failures, crashes,
         lapses, finished_at, started, finished, reason, worker, rank)
    select t.handle >> 12, t.handle & 4095, (t.handle & 4095) + 1, 1, null, t.state, t.run_at,
           t.delivery, t.attempt, t.failures, t.crashes, t.lapses,
           coalesce(t.finished_at, p_now),
           array[case when t.began_now then p_now else t.started_at end],
           array[coalesce(t.finished_at, p_now)], t.reason, p_worker, t.rank
      from jsonb_to_recordset(p_rare -> 'finished') as t (
           handle bigint, state text, run_at bigint, delivery integer, attempt integer,
           failures integer, crashes integer, lapses integer, started_at bigint,
           began_now boolean, finished_at bigint, reason text, rank bigint);
    insert into longshore.attempt
    select t.handle >> 12, t.handle & 4095, t.delivery, t.attempt, t.outcome, p_worker,
           case when t.began_now then p_now else t.started_at end,
           coalesce(t.finished_at, p_now), t.failure
      from jsonb_to_recordset(p_rare -> 'attempts') as t (
           handle bigint, delivery integer, attempt integer, outcome text, started_at bigint,
           began_now boolean, finished_at bigint, failure jsonb);
    delete from longshore.request q
     where q.token = p_token
       and q.handle in (select h::bigint from jsonb_array_elements_text(p_rare -> 'heard') h);
    insert into longshore.progress
    select t.handle >> 12, t.handle & 4095, t.delivery, t.fraction, t.message, p_now
      from jsonb_to_recordset(p_rare -> 'progress') as t (
           handle bigint, delivery integer, fraction double precision, message text)
        on conflict (segment, ordinal) do update
       set delivery = excluded.delivery, fraction = excluded.fraction,
           message = excluded.message, at = excluded.at;
end
$$;

-- As before, and progress goes with its job.
create or replace function longshore.forget(
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
           select from longshore.scheduled x where x.segment = s.segment offset 0);
end
$$;

alter type longshore.known
    add attribute progress double precision,
    add attribute progress_message text,
    add attribute progress_at bigint;

-- As before, and with the progress. With more than eight relations to join the server no longer
-- looks for their best order, and `where id = …` on the view would read every segment.
create or replace function longshore.seen(
    p_segment bigint, p_ordinal integer default null, p_payload bytea default null
) returns setof longshore.known language sql stable as $$
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
              and g.delivery = p.delivery offset 0) g on true
$$;

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
       j.progress, j.progress_message, longshore.moment(j.progress_at) as progress_at
  from longshore.segment g
 cross join lateral longshore.seen(g.segment) j
  join longshore.locator l
    on l.id = j.id and l.segment + 0 = g.segment and l.ordinal = j.ordinal;
