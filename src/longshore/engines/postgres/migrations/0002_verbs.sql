-- The verbs that must be one call: submit, settle, claim, exchange.
-- The settings pin the plans: a statement planned while its table was empty would sort all of it
-- later on. `offset 0` keeps a look-up by key apart, for the same reason: joined to a table
-- that was empty, or vacuumed when it was, it would read all of an index later on.
-- tests/engines/test_postgres_plans.py looks at what this leads to.

create function longshore.clock(p_now bigint) returns bigint language sql volatile as $$
    select coalesce(p_now, (extract(epoch from clock_timestamp()) * 1000000)::bigint)
$$;

-- When what comes now arrives. Order outlives clocks: if ours was set back, it still arrives
-- after what came before.
create function longshore.arrival(p_now bigint) returns bigint language plpgsql volatile as $$
declare
    v_last bigint;
begin
    select s.created_at into v_last from longshore.segment s order by s.segment desc limit 1;
    return greatest(p_now, v_last);
end
$$;

-- Whether an ordinal between a span's ends belongs to it.
create function longshore.has(p_mask bytea, p_ordinal integer) returns boolean
language sql immutable as $$
    select p_mask is null or get_bit(p_mask, p_ordinal) = 1
$$;

-- Whether a job is waiting, running or finished; null when there is none. What the journal of
-- its holder says goes before its claim.
create function longshore.state_of(p_id uuid) returns text language sql stable as $$
    select case
        when exists (select from longshore.ready r
                      where r.segment = l.segment and l.ordinal >= r.lo and l.ordinal < r.hi
                        and longshore.has(r.mask, l.ordinal)) then 'ready'
        when exists (select from longshore.scheduled r
                      where r.segment = l.segment and l.ordinal >= r.lo and l.ordinal < r.hi
                        and longshore.has(r.mask, l.ordinal)) then 'scheduled'
        when f.state is not null then f.state
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

-- Store segments with their ready and scheduled spans. Members g_* are segments, s_* their
-- spans; segment g holds the jobs from g_from (exclusive) to g_to: of p_types and p_tenants,
-- where its own is empty, and of p_bounds, which has one more for each segment. p_arrival is
-- null, or what `admit` told. Returns the clock and the arrival.
-- A unique violation, with nothing stored, when an id is known or stands twice.
create function longshore.submit(
    p_now bigint, p_arrival bigint,
    g_queue text[], g_type text[], g_tenant text[], g_priority smallint[],
    g_max_attempts integer[], g_timeout bigint[], g_from integer[], g_to integer[],
    g_weight integer[], g_ids bytea[], g_keys text[], g_attributes text[],
    s_group integer[], s_lo smallint[], s_hi smallint[], s_run_at bigint[], s_delay bigint[],
    s_queue text[], s_type text[], s_types text[], g_payloads bytea[], p_bounds integer[],
    p_types text[], p_tenants text[], p_body bytea, p_wakes boolean
) returns bigint[] language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
    c_epoch constant bigint := 1704067200000000;
    c_band  constant bigint := 1::bigint << 51;
    v_now      bigint := longshore.clock(p_now);
    v_arrival  bigint := coalesce(p_arrival, longshore.arrival(v_now));
    v_since    bigint;
    v_segments bigint[] := '{}';
    v_count    integer;
begin
    v_since := least(greatest(v_arrival - c_epoch, 0), c_band - 1);
    select array_agg(((v_since / 60000000) << 26)
                     | (nextval('longshore.segment_number') & 67108863))
      into v_segments from generate_series(1, cardinality(g_queue));

    -- A known id ends it here, by the primary key: `on conflict` would write twice as much.
    -- A bytea array is walked from its beginning for every element: hence unnest.
    insert into longshore.locator (id, segment, ordinal)
    select encode(substring(t.ids from i * 16 + 1 for 16), 'hex')::uuid, t.segment, i
      from unnest(v_segments, g_ids, g_from, g_to) as t (segment, ids, start, stop),
           generate_series(0, t.stop - t.start - 1) i;

    insert into longshore.segment
    select t.segment, t.queue, t.type, t.tenant, t.priority, t.max_attempts, t.timeout,
           v_arrival, t.stop - t.start, t.weight, t.ids, t.payloads,
           p_bounds[t.start + t.place : t.stop + t.place],
           case when t.type = '' then p_types[t.start + 1 : t.stop] end,
           case when t.tenant = '' then p_tenants[t.start + 1 : t.stop] end,
           t.keys::jsonb, t.attributes::jsonb
      from unnest(v_segments, g_queue, g_type, g_tenant, g_priority, g_max_attempts,
                  g_timeout, g_weight, g_ids, g_payloads, g_from, g_to, g_keys, g_attributes)
           with ordinality
           as t (segment, queue, type, tenant, priority, max_attempts, timeout, weight,
                 ids, payloads, start, stop, keys, attributes, place);

    with span as materialized (
        select v_segments[s.g] as segment, s.lo, s.hi, g_weight[s.g] as weight, s.queue, s.type,
               s.types::text[] as types, g_priority[s.g]::bigint << 52 as urgency,
               coalesce(s.run_at, v_now + s.delay) as due
          from unnest(s_group, s_lo, s_hi, s_run_at, s_delay, s_queue, s_type, s_types)
               as s (g, lo, hi, run_at, delay, queue, type, types)
    ), later as (
        insert into longshore.scheduled
            (run_at, segment, lo, hi, size, weight, queue, type, types, rank)
        select due, segment, lo, hi, hi - lo, weight, queue, type, types,
               urgency + least(greatest(due - c_epoch, 0), c_band - 1)
          from span where due > v_now
    )
    insert into longshore.ready
        (queue, type, types, rank, segment, lo, hi, size, weight, run_at)
    select queue, type, types, urgency + c_band + v_since, segment, lo, hi, hi - lo, weight,
           v_arrival
      from span where due <= v_now;
    get diagnostics v_count = row_count;

    if p_body is not null then
        insert into longshore.outbox (at, body) values (v_now, p_body);
    end if;
    if v_count > 0 and (p_wakes or exists (select from longshore.waiting)) then
        perform pg_notify('longshore', '');
    end if;
    return array[v_now, v_arrival];
end
$$;

-- The same for one job, which is most of what waits for a person: a third of the work.
create function longshore.submit_one(
    p_now bigint, p_queue text, p_type text, p_tenant text, p_priority smallint,
    p_max_attempts integer, p_timeout bigint, p_run_at bigint, p_delay bigint, p_id bytea,
    p_payload bytea, p_keys jsonb, p_attributes jsonb, p_body bytea
) returns bigint[] language plpgsql
    set enable_seqscan = off
as $$
declare
    c_epoch constant bigint := 1704067200000000;
    c_band  constant bigint := 1::bigint << 51;
    v_now     bigint := longshore.clock(p_now);
    v_due     bigint := coalesce(p_run_at, v_now + p_delay);
    v_urgency bigint := p_priority::bigint << 52;
    v_weight  integer := length(p_payload);
    v_arrival bigint := longshore.arrival(v_now);
    v_since   bigint;
    v_segment bigint;
begin
    v_since := least(greatest(v_arrival - c_epoch, 0), c_band - 1);
    v_segment := ((v_since / 60000000) << 26)
                 | (nextval('longshore.segment_number') & 67108863);
    if v_due > v_now then
        insert into longshore.scheduled
            (run_at, segment, lo, hi, size, weight, queue, type, rank)
        values (v_due, v_segment, 0, 1, 1, v_weight, p_queue, p_type,
                v_urgency + least(greatest(v_due - c_epoch, 0), c_band - 1));
    else
        insert into longshore.ready (queue, type, rank, segment, lo, hi, size, weight, run_at)
        values (p_queue, p_type, v_urgency + c_band + v_since, v_segment, 0, 1, 1, v_weight,
                v_arrival);
    end if;
    with place as (
        insert into longshore.locator (id, segment, ordinal)
        values (encode(p_id, 'hex')::uuid, v_segment, 0)
    ), told as (
        insert into longshore.outbox (at, body) values (v_now, p_body)
    )
    insert into longshore.segment
        (segment, queue, type, tenant, priority, max_attempts, timeout, created_at, size,
         weight, ids, payloads, bounds, keys, attributes)
    values (v_segment, p_queue, p_type, p_tenant, p_priority, p_max_attempts, p_timeout,
            v_arrival, 1, v_weight, p_id, p_payload, array[0, v_weight], p_keys, p_attributes);
    if v_due <= v_now and exists (select from longshore.waiting) then
        perform pg_notify('longshore', '');
    end if;
    return array[v_now, v_arrival];
end
$$;

-- Decide, job by job in their order, which of them may come in, and write down the keys of
-- those that may. The times are those of the job as it was accepted; null where nothing is
-- stored for it. `submit` takes the clock and the arrival that are told here.
create function longshore.admit(
    p_now bigint, p_ids uuid[], p_tenants text[], p_keys text[], p_fingerprints bytea[],
    p_uniques text[], p_run_ats bigint[], p_delays bigint[]
) returns table (id uuid, verdict text, created_at bigint, run_at bigint, clock bigint)
language plpgsql
    set lock_timeout = '200ms'
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
    v_arrival  bigint;
    v_due      bigint;
    v_admitted uuid[] := '{}';
    v_dues     bigint[] := '{}';
    v_known    record;
    v_state    text;
begin
    clock := longshore.clock(p_now);
    v_arrival := longshore.arrival(clock);
    for i in 1 .. cardinality(p_ids) loop
        id := p_ids[i];
        verdict := 'accepted';
        created_at := v_arrival;
        v_due := coalesce(p_run_ats[i], clock + p_delays[i]);
        run_at := case when v_due > clock then v_due else v_arrival end;
        if id = any (v_admitted) then
            verdict := 'repeated';
            run_at := v_dues[array_position(v_admitted, id)];
        elsif exists (select from longshore.locator l where l.id = p_ids[i]) then
            verdict := 'repeated';
            select t.created_at, t.run_at into created_at, run_at
              from longshore.first_times(id, p_tenants[i], p_keys[i]) t;
        end if;
        if verdict = 'accepted' and p_keys[i] is not null then
            loop
                insert into longshore.idempotency
                    (tenant, key, fingerprint, id, created_at, run_at)
                values (p_tenants[i], p_keys[i], p_fingerprints[i], p_ids[i], v_arrival, run_at)
                on conflict do nothing;
                exit when found;
                select k.id, k.fingerprint, k.created_at, k.run_at into v_known
                  from longshore.idempotency k
                 where k.tenant = p_tenants[i] and k.key = p_keys[i];
                -- A key may be pruned between the two.
                continue when not found;
                id := v_known.id;
                created_at := null;
                run_at := null;
                verdict := 'conflict';
                if v_known.fingerprint = p_fingerprints[i] then
                    verdict := 'repeated';
                    created_at := v_known.created_at;
                    run_at := v_known.run_at;
                end if;
                exit;
            end loop;
        end if;
        if verdict = 'accepted' and p_uniques[i] is not null then
            insert into longshore.uniqueness (tenant, key, id)
            values (p_tenants[i], p_uniques[i], p_ids[i]) on conflict do nothing;
            if not found then
                select u.id into v_known from longshore.uniqueness u
                 where u.tenant = p_tenants[i] and u.key = p_uniques[i] for update;
                v_state := longshore.state_of(v_known.id);
                if v_known.id = any (v_admitted) or v_state in ('ready', 'scheduled')
                   or (v_state = 'running' and (
                        select s.keys -> l.ordinal::text ->> 'unique_until'
                          from longshore.locator l cross join lateral (
                               select x.keys from longshore.segment x
                                where x.segment = l.segment offset 0) s
                         where l.id = v_known.id) = 'finished') then
                    id := v_known.id;
                    created_at := null;
                    run_at := null;
                    verdict := 'unique';
                    delete from longshore.idempotency k
                     where k.tenant = p_tenants[i] and k.key = p_keys[i]
                       and k.id = p_ids[i];
                else
                    update longshore.uniqueness u set id = p_ids[i]
                     where u.tenant = p_tenants[i] and u.key = p_uniques[i];
                end if;
            end if;
        end if;
        if verdict = 'accepted' then
            v_admitted := v_admitted || id;
            v_dues := v_dues || run_at;
        end if;
        return next;
    end loop;
end
$$;

-- When a known job arrived, and when it was due at first if its key tells, or else now.
create function longshore.first_times(
    p_id uuid, p_tenant text, p_key text, out created_at bigint, out run_at bigint
) language plpgsql stable
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
as $$
begin
    select k.created_at, k.run_at into created_at, run_at from longshore.idempotency k
     where k.tenant = p_tenant and k.key = p_key and k.id = p_id;
    if not found then
        select s.created_at, p.run_at into created_at, run_at
          from longshore.locator l
         cross join lateral (
               select x.created_at from longshore.segment x
                where x.segment = l.segment offset 0) s
         cross join lateral longshore.places(l.segment, l.ordinal) p
         where l.id = p_id;
    end if;
end
$$;

-- Submit jobs of which some have keys, members k_*, or unique keys, members u_*. Raises LS003,
-- and stores nothing, if one of the keys is known: then `admit` has to look at each.
-- Whoever holds one of the keys in an open transaction is not waited for longer than this.
create function longshore.submit_keyed(
    k_tenant text[], k_key text[], k_fingerprint bytea[], k_id uuid[], k_run_at bigint[],
    k_delay bigint[], u_tenant text[], u_key text[], u_id uuid[], p_now bigint,
    g_queue text[], g_type text[], g_tenant text[], g_priority smallint[],
    g_max_attempts integer[], g_timeout bigint[], g_from integer[], g_to integer[],
    g_weight integer[], g_ids bytea[], g_keys text[], g_attributes text[],
    s_group integer[], s_lo smallint[], s_hi smallint[], s_run_at bigint[], s_delay bigint[],
    s_queue text[], s_type text[], s_types text[], g_payloads bytea[], p_bounds integer[],
    p_types text[], p_tenants text[], p_body bytea, p_wakes boolean
) returns bigint[] language plpgsql
    set lock_timeout = '20ms' set enable_seqscan = off
as $$
declare
    v_now     bigint := longshore.clock(p_now);
    v_arrival bigint := longshore.arrival(v_now);
    v_count   integer;
begin
    -- In the order of the keys, so that two batches do not wait for each other in a circle.
    insert into longshore.idempotency (tenant, key, fingerprint, id, created_at, run_at)
    select t.tenant, t.key, t.fingerprint, t.id, v_arrival,
           case when coalesce(t.run_at, v_now + t.delay) > v_now
                then coalesce(t.run_at, v_now + t.delay) else v_arrival end
      from unnest(k_tenant, k_key, k_fingerprint, k_id, k_run_at, k_delay)
           as t (tenant, key, fingerprint, id, run_at, delay)
     order by t.tenant, t.key
    on conflict do nothing;
    get diagnostics v_count = row_count;
    if v_count < cardinality(k_key) then
        raise exception 'not all may come in' using errcode = 'LS003';
    end if;
    insert into longshore.uniqueness (tenant, key, id)
    select t.tenant, t.key, t.id from unnest(u_tenant, u_key, u_id) as t (tenant, key, id)
     order by t.tenant, t.key
    on conflict do nothing;
    get diagnostics v_count = row_count;
    if v_count < cardinality(u_key) then
        raise exception 'not all may come in' using errcode = 'LS003';
    end if;
    return longshore.submit(v_now, v_arrival, g_queue, g_type, g_tenant, g_priority,
                            g_max_attempts, g_timeout, g_from, g_to, g_weight, g_ids, g_keys,
                            g_attributes, s_group, s_lo, s_hi, s_run_at, s_delay, s_queue,
                            s_type, s_types, g_payloads, p_bounds, p_types, p_tenants, p_body,
                            p_wakes);
end
$$;

-- Apply what a session, or whoever buries it, decided: the caller holds the session's row.
-- Members c_* are claimed spans that leave (c_rest is null) or shrink to the mask c_rest;
-- f_* are spans that succeeded, with their times; j_* is a row of the journal; p_forget are
-- rows of it that nobody needs any more; r_* are results; t_* is a row of the tally, of all that
-- finishes here. p_rare is what happens to few: spans that become ready or scheduled again,
-- that died or were cancelled, and their history.
create function longshore.settle(
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
        perform longshore.settle_rare(p_token, p_now, p_worker, p_rare);
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

-- 0008_progress.sql replaces it.
create function longshore.settle_rare(
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
end
$$;

-- The types of which a queue has ready spans that a session may take (null: any session); an
-- empty one stands for spans of several.
create function longshore.lanes(p_queue text, p_types text[]) returns text[]
language plpgsql stable as $$
begin
    return (
        with recursive present (type) as (
            (select r.type from longshore.ready r where r.queue = p_queue
              order by r.type limit 1)
            union all
            select (select r.type from longshore.ready r
                     where r.queue = p_queue and r.type > p.type order by r.type limit 1)
              from present p where p.type is not null
        )
        select array_agg(p.type) from present p
         where p.type is not null
           and (p_types is null or p.type = '' or p.type = any (p_types)));
end
$$;

create function longshore.mask(p_ordinals integer[], p_hi integer) returns bytea
language plpgsql immutable as $$
declare
    v_mask  bytea := decode(repeat('00', (p_hi + 7) / 8), 'hex');
    v_place integer;
begin
    foreach v_place in array p_ordinals loop
        v_mask := set_bit(v_mask, v_place, 1);
    end loop;
    return v_mask;
end
$$;

-- Part ready spans of several types by type: a claim may take some of them and not others.
-- Returns how many were parted; what others hold is left alone.
create function longshore.part(p_spans tid[]) returns integer language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
    v_span  record;
    v_count integer := 0;
begin
    for v_span in
        select r.*, r.ctid as tid from longshore.ready r
         where r.ctid = any (p_spans) for update skip locked
    loop
        delete from longshore.ready r where r.ctid = v_span.tid;
        insert into longshore.ready
            (queue, type, rank, segment, lo, hi, size, weight, mask, run_at, delivery, attempt,
             failures, crashes, lapses, is_replayed)
        select v_span.queue, g.type, v_span.rank, v_span.segment, g.lo, g.hi, g.size,
               v_span.weight,
               case when g.size < g.hi - g.lo then longshore.mask(g.ordinals, g.hi) end,
               v_span.run_at, v_span.delivery, v_span.attempt, v_span.failures,
               v_span.crashes, v_span.lapses, v_span.is_replayed
          from (select t.type, min(o.ordinal) as lo, max(o.ordinal) + 1 as hi,
                       count(*) as size, array_agg(o.ordinal) as ordinals
                  from longshore.segment s
                 cross join lateral unnest(s.types) with ordinality as t (type, place)
                 cross join lateral (select t.place::integer - 1 as ordinal) o
                 where s.segment = v_span.segment
                   and o.ordinal >= v_span.lo and o.ordinal < v_span.hi
                   and longshore.has(v_span.mask, o.ordinal)
                 group by t.type) g;
        v_count := v_count + 1;
    end loop;
    return v_count;
end
$$;

-- Jobs that are claimed leave the front of the index by rank. While an old snapshot is open
-- their entries stay there, and every claim would pass over all of them: 30 ms for a hundred
-- thousand. So a claim that took long notes, for every type and priority of its queue, where the
-- first job is, and claims begin there. What comes back with an older rank, such as a retry, is
-- found when the notes are old: after five seconds, or twenty times as long as it took.
create function longshore.look_ahead(
    p_queue text, p_types text[], p_now bigint, p_took interval
) returns void language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
declare
    c_second constant bigint := 1000000;
    c_band   constant bigint := 1::bigint << 51;
    c_old    constant interval := '10 seconds';
    v_since  constant bigint := least(greatest(p_now - 1704067200000000, 0), c_band - 1);
    v_moment constant timestamptz := clock_timestamp();
    v_dead   constant bigint := pg_stat_get_dead_tuples('longshore.ready'::regclass);
    v_kept   boolean;
    v_lanes  text[];
begin
    -- A machine that has much to do is slow too, and notes would only delay what comes back.
    -- Transactions of other users do not show, unless we may read all statistics.
    if v_dead < 2000 or (v_dead < 100000 and not exists (
           select from pg_stat_activity a
            where a.backend_type = 'client backend' and age(a.backend_xmin) > 2000
              and a.xact_start < v_moment - c_old))
       or not pg_try_advisory_xact_lock(7813585269108010869) then
        return;
    end if;
    select true into v_kept from longshore.horizon h
     where h.queue = p_queue and h.all_at > v_moment limit 1;
    if v_kept then
        update longshore.horizon h set low = greatest(h.low, f.rank - 2 * c_second)
          from longshore.horizon k left join lateral (
               select r.rank from longshore.ready r
                where r.queue = k.queue and r.type = k.type
                  and r.rank >= k.low and r.rank < k.high
                order by r.rank limit 1) f on true
         where k.queue = p_queue and h.queue = k.queue and h.type = k.type
           and h.high = k.high and f.rank > h.low + 2 * c_second;
        return;
    end if;
    delete from longshore.horizon h where h.queue = p_queue or h.all_at <= v_moment;
    v_lanes := longshore.lanes(p_queue, null);
    if v_lanes is null and cardinality(p_types) <= 8 then
        v_lanes := p_types;
    end if;
    insert into longshore.horizon
    select p_queue, t.type,
           greatest(b.band * c_band,
                    coalesce(f.rank, b.band * c_band + v_since) - 2 * c_second),
           (b.band + 1) * c_band,
           v_moment + greatest(interval '5 seconds', 20 * p_took)
      from (select '' as type union select unnest(v_lanes)) t
     cross join generate_series(2, 19) as b (band)
      left join lateral (
           select r.rank from longshore.ready r
            where r.queue = p_queue and r.type = t.type
              and r.rank >= b.band * c_band and r.rank < (b.band + 1) * c_band
            order by r.rank limit 1) f on true;
end
$$;

-- Hand up to p_want jobs to an exchange: queue after queue, by rank inside each. Only what is
-- taken is locked; what others hold is passed over. Returns how many, and, if there were none,
-- one that someone else was just taking.
create function longshore.claim(
    p_token bigint, p_number bigint, p_now bigint, p_queues text[], p_types text[],
    p_want integer,
    out taken integer, out missed tid
) language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
    c_most_bytes constant float8 := 64 << 20;
    c_long       constant interval := '3 milliseconds';
    v_queue  text;
    v_types  text[];
    v_lanes  text[];
    v_lows   bigint[];
    v_highs  bigint[];
    v_began  timestamptz;
    v_mixed  tid[];
    v_left   integer := p_want;
    v_weight float8 := 0;
    v_part   integer := 0;
    v_limit  integer;
    v_tids   tid[];
    v_whole  tid[];
    v_cut    tid;
    v_taken  integer;
    v_heavy  float8;
    v_rank   bigint;
    v_segment bigint;
    v_hi     integer;
    v_ranks  bigint[];
    v_segments bigint[];
    v_his    smallint[];
    v_reach  integer := 1;
    v_free   record;
begin
    foreach v_queue in array p_queues loop
        exit when v_left <= 0 or v_weight >= c_most_bytes;
        v_types := p_types;
        if exists (select from longshore.pause x where x.type <> '') then
            v_types := array(
                select t.type from unnest(p_types) as t (type)
                 where not exists (select from longshore.pause x
                                    where x.queue in (v_queue, '') and x.type = t.type));
        end if;
        v_began := clock_timestamp();
        select array_agg(h.type), array_agg(h.low), array_agg(h.high)
          into v_lanes, v_lows, v_highs
          from longshore.horizon h
         where h.queue = v_queue and h.all_at > v_began
           and (h.type = '' or h.type = any (v_types));
        if v_lanes is null then
            v_lanes := longshore.lanes(v_queue, v_types);
            v_lows := null;
        end if;
        if cardinality(v_lanes) = 1 then
            -- A queue that is nearly empty: what there is may be a single span.
            select array_agg(x.tid) into v_tids from (
                select r.ctid as tid from longshore.ready r
                 where r.queue = v_queue and r.type = v_lanes[1]
                 order by r.rank, r.segment, r.hi limit 2) x;
            if cardinality(v_tids) = 1 then
                v_taken := longshore.claim_whole(p_token, p_number, v_part + 1, v_tids[1],
                                                 v_types, v_left);
                if v_taken > 0 then
                    v_part := v_part + 1;
                    v_left := v_left - v_taken;
                    v_lanes := null;
                end if;
            end if;
        end if;
        v_limit := 8;
        v_rank := -1;
        v_segment := -1;
        v_hi := -1;
        while v_lanes is not null loop
            -- The heads of all types, merged. Where a type was cut off at the limit, what comes
            -- behind its last span is not known to be next.
            with head as materialized (
                select t.type, r.tid, r.rank, r.segment, r.hi, r.size, r.weight, r.is_mixed,
                       row_number() over (partition by t.type, t.low
                                          order by r.rank, r.segment, r.hi) as place
                  from unnest(v_lanes, v_lows, v_highs) as t (type, low, high)
                 cross join lateral (select v_rank >= coalesce(t.low, 0) as is_past) w
                 cross join lateral (
                       select x.ctid as tid, x.rank, x.segment, x.hi, x.size, x.weight,
                              t.type = '' and not x.types <@ v_types as is_mixed
                         from longshore.ready x
                        where x.queue = v_queue and x.type = t.type
                          and (x.rank, x.segment, x.hi) > (
                              case when w.is_past then v_rank else coalesce(t.low, -1) end,
                              case when w.is_past then v_segment else -1 end,
                              case when w.is_past then v_hi else -1 end)
                          and x.rank < coalesce(t.high, 9223372036854775807)
                        order by x.rank, x.segment, x.hi limit v_limit) r
            ), bound as materialized (
                select h.rank, h.segment, h.hi from head h where h.place = v_limit
                 order by h.rank, h.segment, h.hi limit 1
            ), sure as materialized (
                select h.*, sum(h.size) over w - h.size as before,
                       sum(h.size::float8 * h.weight) over w
                           - h.size::float8 * h.weight as weight_before
                  from head h
                 where not exists (select from bound)
                    or (h.rank, h.segment, h.hi) <= (select b.rank, b.segment, b.hi from bound b)
                window w as (order by h.rank, h.segment, h.hi rows unbounded preceding)
            )
            -- The window leaves them in order, and so does the aggregate.
            select array_agg(s.tid) filter (where not s.is_mixed), array_agg(s.rank),
                   array_agg(s.segment), array_agg(s.hi),
                   array_agg(s.tid) filter (where s.is_mixed)
              into v_tids, v_ranks, v_segments, v_his, v_mixed
              from sure s
             where s.before < v_left::bigint * v_reach
               and s.weight_before + v_weight < c_most_bytes * v_reach;
            exit when v_ranks is null;
            if v_mixed is not null and longshore.part(v_mixed) > 0 then
                -- Their types may be new to the notes.
                delete from longshore.horizon h where h.queue = v_queue;
                v_lanes := longshore.lanes(v_queue, v_types);
                v_lows := null;
                v_highs := null;
                exit when v_lanes is null;
                continue;
            end if;
            v_rank := v_ranks[cardinality(v_ranks)];
            v_segment := v_segments[cardinality(v_segments)];
            v_hi := v_his[cardinality(v_his)];
            continue when v_tids is null;

            if v_reach > 1 then
                -- Many others are at work on the spans in front: take the first that is free.
                select x.ctid as tid, x.rank, x.segment, x.hi, x.size, x.weight into v_free
                  from unnest(v_tids) with ordinality as t (tid, place)
                  join longshore.ready x on x.ctid = t.tid
                 order by t.place limit 1 for update of x skip locked;
                continue when not found;
                v_reach := 1;
                v_tids := array[v_free.tid];
                v_rank := v_free.rank;
                v_segment := v_free.segment;
                v_hi := v_free.hi;
            end if;
            with locked as materialized (
                select x.ctid as tid, x.rank, x.segment, x.hi, x.size, x.weight
                  from longshore.ready x where x.ctid = any (v_tids)
                   for update skip locked
            ), counted as (
                select l.*, sum(l.size) over (order by l.rank, l.segment, l.hi
                                              rows unbounded preceding) as total
                  from locked l
            )
            select array_agg(c.tid) filter (where c.total <= v_left),
                   (array_agg(c.tid) filter (where c.total > v_left
                                               and c.total - c.size < v_left))[1],
                   coalesce(sum(c.size) filter (where c.total <= v_left), 0),
                   coalesce(sum(c.size::float8 * c.weight) filter (where c.total <= v_left), 0)
              into v_whole, v_cut, v_taken, v_heavy
              from counted c;
            if v_whole is null and v_cut is null then
                missed := v_tids[1];
                v_reach := 64;
                v_limit := greatest(v_limit, 64);
            end if;

            if v_whole is not null then
                with gone as (
                    delete from longshore.ready r where r.ctid = any (v_whole)
                    returning r.*
                )
                insert into longshore.claim
                    (token, number, part, segment, lo, hi, size, weight, mask, rank, run_at,
                     delivery, attempt, failures, crashes, lapses)
                select p_token, p_number,
                       v_part + row_number() over (order by g.rank, g.segment, g.hi),
                       g.segment, g.lo, g.hi, g.size, g.weight, g.mask, g.rank, g.run_at,
                       g.delivery + 1, g.attempt, g.failures, g.crashes, g.lapses
                  from gone g;
                v_part := v_part + cardinality(v_whole);
                v_left := v_left - v_taken;
                v_weight := v_weight + v_heavy;
            end if;
            if v_cut is not null and v_left > 0 then
                v_part := v_part + 1;
                perform longshore.claim_front(p_token, p_number, v_part, v_cut, v_left);
                v_left := 0;
            end if;
            exit when v_left <= 0 or v_weight >= c_most_bytes;
            -- As many of each type as the rest will need, if its spans are as long as these.
            v_limit := case when v_part = 0 then v_limit * 2 else 8 +
                v_left::bigint * v_part * 3
                    / (2 * (p_want - v_left) * cardinality(v_lanes)) end;
            v_limit := least(v_limit, 2048);
        end loop;
        if clock_timestamp() - v_began > c_long then
            perform longshore.look_ahead(v_queue, v_types, p_now,
                                             clock_timestamp() - v_began);
        end if;
    end loop;
    taken := p_want - v_left;
end
$$;

-- Wait a moment for whoever is taking jobs from a span: they may not take all of them.
create function longshore.await_span(p_span tid) returns boolean language plpgsql
    set lock_timeout = '100ms' set enable_seqscan = off
as $$
begin
    perform from longshore.ready r where r.ctid = p_span for update;
    return true;
exception when lock_not_available then
    return false;
end
$$;

-- Take a ready span if it is free, is not too long and has no types but these: how many jobs.
create function longshore.claim_whole(
    p_token bigint, p_number bigint, p_part integer, p_span tid, p_types text[], p_want integer
) returns integer language plpgsql as $$
declare
    v_size integer;
begin
    with free as materialized (
        select r.ctid as tid from longshore.ready r
         where r.ctid = p_span and r.size <= p_want
           and (r.types is null or r.types <@ p_types)
           for update skip locked
    ), gone as (
        delete from longshore.ready r using free f where r.ctid = f.tid returning r.*
    )
    insert into longshore.claim
        (token, number, part, segment, lo, hi, size, weight, mask, rank, run_at, delivery,
         attempt, failures, crashes, lapses)
    select p_token, p_number, p_part, g.segment, g.lo, g.hi, g.size, g.weight, g.mask, g.rank,
           g.run_at, g.delivery + 1, g.attempt, g.failures, g.crashes, g.lapses
      from gone g
    returning size into v_size;
    return coalesce(v_size, 0);
end
$$;

-- Take the first p_want jobs of a locked ready span that has more.
create function longshore.claim_front(
    p_token bigint, p_number bigint, p_part integer, p_span tid, p_want integer
) returns void language plpgsql
    set enable_seqscan = off
as $$
declare
    v_span  longshore.ready;
    v_front bytea;
    v_at    integer;
    v_taken integer := 0;
begin
    select r.* into v_span from longshore.ready r where r.ctid = p_span;
    if v_span.mask is null then
        v_at := v_span.lo + p_want;
        update longshore.ready r set lo = v_at, size = v_span.size - p_want
         where r.ctid = p_span;
    else
        v_front := v_span.mask;
        v_at := v_span.lo;
        while v_taken < p_want loop
            if get_bit(v_span.mask, v_at) = 1 then
                v_taken := v_taken + 1;
                v_span.mask := set_bit(v_span.mask, v_at, 0);
            end if;
            v_at := v_at + 1;
        end loop;
        for i in v_at .. v_span.hi - 1 loop
            v_front := set_bit(v_front, i, 0);
        end loop;
        update longshore.ready r
           set lo = v_at, size = v_span.size - p_want, mask = v_span.mask
         where r.ctid = p_span;
    end if;
    insert into longshore.claim
        (token, number, part, segment, lo, hi, size, weight, mask, rank, run_at, delivery,
         attempt, failures, crashes, lapses)
    values (p_token, p_number, p_part, v_span.segment, v_span.lo, v_at, p_want, v_span.weight,
            v_front, v_span.rank, v_span.run_at, v_span.delivery + 1, v_span.attempt,
            v_span.failures, v_span.crashes, v_span.lapses);
end
$$;

-- The spans that an exchange claimed, with all that their jobs need to run.
create function longshore.claimed(p_token bigint, p_number bigint)
returns table (
    part smallint, segment bigint, lo smallint, hi smallint, size smallint, weight integer,
    mask bytea, rank bigint, run_at bigint, delivery integer, attempt integer,
    failures integer, crashes integer, lapses integer, queue text, type text, tenant text,
    priority smallint, max_attempts integer, timeout bigint, created_at bigint, ids bytea,
    payloads bytea, bounds integer[], types text[], tenants text[], attributes text
) language sql stable as $$
    select c.part, c.segment, c.lo, c.hi, c.size, c.weight, c.mask, c.rank, c.run_at,
           c.delivery, c.attempt, c.failures, c.crashes, c.lapses, s.queue, s.type, s.tenant,
           s.priority, s.max_attempts, s.timeout, s.created_at,
           substring(s.ids from c.lo * 16 + 1 for (c.hi - c.lo) * 16),
           substring(s.payloads from s.bounds[c.lo + 1] + 1
                     for s.bounds[c.hi + 1] - s.bounds[c.lo + 1]),
           s.bounds[c.lo + 1 : c.hi + 1],
           s.types[c.lo + 1 : c.hi], s.tenants[c.lo + 1 : c.hi], s.attributes::text
      from longshore.claim c cross join lateral (
           select x.* from longshore.segment x where x.segment = c.segment offset 0) s
     where c.token = p_token and c.number = p_number
     order by c.part
$$;

-- Whether an exchange that settles nothing would change nothing: then it writes nothing, not
-- even a lock, and need not wait for the disk.
create function longshore.is_idle(
    p_token bigint, p_number bigint, p_now bigint, p_queues text[], p_want integer
) returns boolean language plpgsql stable as $$
begin
    return exists (
               select from longshore.session s
                where s.token = p_token and s.expires_at > p_now)
           and (p_want = 0 or exists (select from longshore.waiting w where w.token = p_token))
           and not exists (
               select from longshore.exchanged e where e.token = p_token and e.number >= p_number)
           and not exists (select from longshore.request q where q.token = p_token)
           and (p_want = 0 or not exists (
               select from unnest(p_queues) as w (queue)
                where exists (
                      select from longshore.ready r where r.queue = w.queue offset 0)));
end
$$;

-- Settle what finished and claim what is next. The first row of the answer has part -1 and
-- says, as JSON in `attributes`: `now`; `status` applied, idle (there was nothing to do),
-- repeated, order, lost or heed (nothing was applied in the last three); `last` number
-- applied; `refused` of a repeated exchange; the `cancel` requests; whether all queues are `paused`; whether jobs were `missed` because
-- someone else was just taking them.
-- p_soft are settled claims that a request to cancel would settle otherwise: when one of them
-- has such a request that the session had not heard of, it has to decide again (heed).
create function longshore.exchange(
    p_token bigint, p_number bigint, p_now bigint, p_refused text, p_soft bigint[],
    p_queues text[], p_types text[], p_want integer, p_settles boolean, p_worker text,
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
) returns table (
    part smallint, segment bigint, lo smallint, hi smallint, size smallint, weight integer,
    mask bytea, rank bigint, run_at bigint, delivery integer, attempt integer,
    failures integer, crashes integer, lapses integer, queue text, type text, tenant text,
    priority smallint, max_attempts integer, timeout bigint, created_at bigint, ids bytea,
    payloads bytea, bounds integer[], types text[], tenants text[], attributes text
) language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
    v_now    bigint := longshore.clock(p_now);
    v_last   bigint;
    v_refused text;
    v_status text := 'applied';
    v_open   text[];
    v_got    integer := 0;
    v_missed tid;
    v_cancel jsonb;
begin
    if not p_settles and p_refused = '[]'
       and longshore.is_idle(p_token, p_number, v_now, p_queues, p_want) then
        v_status := 'idle';
    else
        -- The lock on the session's row is the fence: it keeps reclaim away until we commit.
        perform from longshore.session s
          where s.token = p_token and s.expires_at > v_now for no key update;
        if not found then
            v_status := 'lost';
        else
            select e.number, e.refused into v_last, v_refused from longshore.exchanged e
             where e.token = p_token order by e.number desc limit 1;
            if p_number = v_last then
                v_status := 'repeated';
            elsif p_number <= coalesce(v_last, 0) then
                v_status := 'order';
            end if;
        end if;
    end if;
    select jsonb_agg(jsonb_build_array(q.handle, q.delivery, q.reason)) into v_cancel
      from longshore.request q where q.token = p_token;
    if v_status = 'applied' and v_cancel is not null and exists (
        select from longshore.request q where q.token = p_token and q.handle = any (p_soft)
    ) then
        v_status := 'heed';
    end if;
    if v_status in ('applied', 'repeated', 'idle') then
        select array_agg(w.queue order by w.place) into v_open
          from unnest(p_queues) with ordinality as w (queue, place)
         where not exists (select from longshore.pause x where x.queue = w.queue and x.type = '');
    end if;
    if v_status = 'applied' then
        if p_settles then
            perform longshore.settle(
                p_token, v_now, p_worker, c_number, c_part, c_rest, c_size, f_segment, f_lo,
                f_hi, f_mask, f_run_at, f_delivery, f_attempt, f_failures, f_crashes, f_lapses,
                f_from, f_to, p_started, p_finished, j_entry, j_handles, j_deliveries, j_kinds,
                j_started, j_finished, p_forget, r_handle, r_result, t_queue, t_tenant, t_state,
                t_jobs, p_rare, p_body);
        end if;
        if p_want > 0 and v_open is not null then
            -- Of several who waited for the same span one has it next, and leaves some or none.
            for v_try in 1 .. 4 loop
                select c.taken, c.missed into v_got, v_missed
                  from longshore.claim(p_token, p_number, v_now, v_open, p_types, p_want) c;
                exit when v_got > 0 or v_missed is null or v_try = 4
                     or not longshore.await_span(v_missed);
            end loop;
        end if;
        delete from longshore.exchanged e where e.token = p_token and e.number = v_last;
        insert into longshore.exchanged values (p_token, p_number, p_refused);
        if p_want > 0 and v_got = 0 and v_missed is null then
            insert into longshore.waiting values (p_token) on conflict do nothing;
        else
            delete from longshore.waiting w where w.token = p_token;
        end if;
    end if;
    return query select
        (-1)::smallint, null::bigint, null::smallint, null::smallint, null::smallint,
        null::integer, null::bytea, null::bigint, null::bigint, null::integer, null::integer,
        null::integer, null::integer, null::integer, null::text, null::text, null::text,
        null::smallint, null::integer, null::bigint, null::bigint, null::bytea,
        null::bytea, null::integer[], null::text[], null::text[],
        jsonb_build_object('now', v_now, 'status', v_status, 'last', v_last,
                           'refused', v_refused, 'cancel', coalesce(v_cancel, '[]'),
                           'paused', v_open is null,
                           'missed', v_got = 0 and v_missed is not null)::text;
    if v_got > 0 or v_status = 'repeated' then
        return query select * from longshore.claimed(p_token, p_number);
    end if;
end
$$;
