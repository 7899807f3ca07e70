-- Submit: what comes in, and what of it is known already.

-- When jobs that come now arrive. Order outlives clocks: if ours was set back, they still arrive
-- after those that came before.
create function longshore.arrival(p_now bigint) returns bigint language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_last bigint;
begin
    select s.created_at into v_last from longshore.segment s order by s.segment desc limit 1;
    return greatest(p_now, v_last);
end
$$;

-- The rank of a job in a queue with the order `aging`, the same as in core.priority_rank: p_since
-- is its arrival, counted from the epoch of ranks. Null if p_aging is.
create function longshore.aged(p_priority bigint, p_since bigint, p_aging bigint) returns bigint
language sql immutable strict
begin atomic
    select (5::bigint << 52) + (1::bigint << 51)
           + least(greatest(p_since + (p_priority - 5) * p_aging, 0), (1::bigint << 51) - 1);
end;

-- What a priority level is worth in a queue, if it has the order `aging`, in microseconds.
create function longshore.aging_of(p_settings jsonb) returns bigint language sql immutable
begin atomic
    select case when p_settings ->> 'order' = 'aging'
                then coalesce((p_settings ->> 'aging')::bigint, 60000000) end;
end;

-- Whether a job is waiting, running or finished; null when there is none. What the journal of
-- its holder says goes before its claim.
create function longshore.state_of(p_id uuid) returns text language sql stable
begin atomic
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
     where l.id = p_id;
end;

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
    set search_path = pg_catalog, pg_temp
as $$
declare
    c_epoch constant bigint := 1704067200000000;
    c_band  constant bigint := 1::bigint << 51;
    v_now      bigint := longshore.clock(p_now);
    v_arrival  bigint := coalesce(p_arrival, longshore.arrival(v_now));
    v_era      bigint := longshore.this_era();
    v_since    bigint;
    v_segments bigint[] := '{}';
    v_count    integer;
    v_ordered  text[];
    v_agings   bigint[];
    v_fair     boolean[];
begin
    v_since := least(greatest(v_arrival - c_epoch, 0), c_band - 1);
    select array_agg(f.queue), array_agg(longshore.aging_of(f.settings)),
           array_agg(f.settings ->> 'order' = 'fair')
      into v_ordered, v_agings, v_fair
      from longshore.flow f where f.queue = any (g_queue) and f.settings ? 'order';
    select array_agg(longshore.new_segment(v_era, v_since))
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
               coalesce(s.run_at, v_now + s.delay) as due,
               v_agings[array_position(v_ordered, s.queue)] as aging,
               case when v_fair[array_position(v_ordered, s.queue)] then g_tenant[s.g]
                    else '' end as lane
          from unnest(s_group, s_lo, s_hi, s_run_at, s_delay, s_queue, s_type, s_types)
               as s (g, lo, hi, run_at, delay, queue, type, types)
    ), later as (
        insert into longshore.scheduled
            (run_at, segment, lo, hi, size, weight, queue, type, types, rank)
        select due, segment, lo, hi, hi - lo, weight, queue, type, types,
               coalesce(longshore.aged(urgency >> 52, due - c_epoch, aging),
                        urgency + least(greatest(due - c_epoch, 0), c_band - 1))
          from span where due > v_now
    )
    insert into longshore.ready
        (queue, type, types, rank, segment, lo, hi, size, weight, run_at, lane)
    select queue, type, types,
           coalesce(longshore.aged(urgency >> 52, v_arrival - c_epoch, aging),
                    urgency + c_band + v_since),
           segment, lo, hi, hi - lo, weight, v_arrival, lane
      from span where due <= v_now;
    get diagnostics v_count = row_count;
    if true = any (v_fair) and v_count > 0 then
        perform longshore.arrange(v_segments);
    end if;

    if p_body is not null then
        insert into longshore.outbox (at, body) values (v_now, p_body);
    end if;
    if v_count > 0 and (p_wakes or exists (select from longshore.waiting)) then
        perform pg_notify('longshore', '');
    end if;
    return array[v_now, v_arrival];
end
$$;

-- Store one job, which is most of what waits for a person: a third of the work of `submit`.
create function longshore.submit_one(
    p_now bigint, p_queue text, p_type text, p_tenant text, p_priority smallint,
    p_max_attempts integer, p_timeout bigint, p_run_at bigint, p_delay bigint, p_id bytea,
    p_payload bytea, p_keys jsonb, p_attributes jsonb, p_body bytea
) returns bigint[] language plpgsql
    set enable_seqscan = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    c_epoch constant bigint := 1704067200000000;
    c_band  constant bigint := 1::bigint << 51;
    v_now     bigint := longshore.clock(p_now);
    v_due     bigint := coalesce(p_run_at, v_now + p_delay);
    v_urgency bigint := p_priority::bigint << 52;
    v_weight  integer := length(p_payload);
    v_arrival bigint := longshore.arrival(v_now);
    v_era     bigint := longshore.this_era();
    v_since   bigint;
    v_segment bigint;
    v_aging   bigint;
    v_lane    text := '';
begin
    v_since := least(greatest(v_arrival - c_epoch, 0), c_band - 1);
    select longshore.aging_of(f.settings),
           case when f.settings ->> 'order' = 'fair' then p_tenant else '' end
      into v_aging, v_lane
      from longshore.flow f where f.queue = p_queue and f.settings ? 'order';
    v_segment := longshore.new_segment(v_era, v_since);
    if v_due > v_now then
        insert into longshore.scheduled
            (run_at, segment, lo, hi, size, weight, queue, type, rank)
        values (v_due, v_segment, 0, 1, 1, v_weight, p_queue, p_type,
                coalesce(longshore.aged(p_priority, v_due - c_epoch, v_aging),
                         v_urgency + least(greatest(v_due - c_epoch, 0), c_band - 1)));
    else
        insert into longshore.ready
            (queue, type, rank, segment, lo, hi, size, weight, run_at, lane)
        values (p_queue, p_type,
                coalesce(longshore.aged(p_priority, v_arrival - c_epoch, v_aging),
                         v_urgency + c_band + v_since),
                v_segment, 0, 1, 1, v_weight, v_arrival, coalesce(v_lane, ''));
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

-- What is known of jobs that come, a row each: the one that came first, whether it is the same,
-- and its times. No verdict where nothing is known, or where another of these jobs decides.
-- A key tells when the job was due as it was accepted; without one it is due when it is due now.
-- The id of a job of another tenant is taken, and nothing is said of that job; what the key of
-- the job that comes stands for goes first, as it does for an id that nobody has.
create function longshore.recall(
    p_ids uuid[], p_tenants text[], p_keys text[], p_fingerprints bytea[]
) returns table (place bigint, id uuid, verdict text, created_at bigint, run_at bigint)
language plpgsql stable
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set search_path = pg_catalog, pg_temp
as $$
begin
    return query
    select t.place, case when o.is_ours or k.id is null then l.id else k.id end,
           case when o.is_ours then 'repeated'
                when l.id is not null and k.id is null then 'taken'
                when l.id is null
                     and (k.id is null or count(*) over (partition by t.id) > 1) then null
                when k.is_first then 'repeated' else 'conflict' end,
           case when k.is_first then k.created_at else s.created_at end,
           case when k.is_first then k.run_at else s.run_at end
      from unnest(p_ids, p_tenants, p_keys, p_fingerprints) with ordinality
           as t (id, tenant, key, fingerprint, place)
      left join lateral (
           select x.* from longshore.locator x where x.id = t.id offset 0) l on true
      left join lateral (
           select case when x.tenant = '' then x.tenants[l.ordinal + 1] else x.tenant end
                  = t.tenant as is_ours
             from longshore.segment x where x.segment = l.segment offset 0) o on true
      left join lateral (
           select x.*, case when o.is_ours then x.id = t.id
                            else x.fingerprint = t.fingerprint end as is_first
             from longshore.idempotency x
            where x.tenant = t.tenant and x.key = t.key offset 0) k on true
      left join lateral (
           select x.created_at, p.run_at
             from longshore.segment x
            cross join lateral longshore.places(l.segment, l.ordinal) p
            where x.segment = l.segment and o.is_ours and k.is_first is not true
            limit 1) s on true
     order by t.place;
end
$$;

-- Decide, job by job in their order, which of them may come in, and write down the keys of
-- those that may. The times are those of the job as it was accepted; null where nothing is
-- stored for it. `submit` takes the clock and the arrival that are told here.
-- A batch that is sent again is answered at once.
create function longshore.admit(
    p_now bigint, p_ids uuid[], p_tenants text[], p_keys text[], p_fingerprints bytea[],
    p_uniques text[], p_run_ats bigint[], p_delays bigint[]
) returns table (id uuid, verdict text, created_at bigint, run_at bigint, clock bigint)
language plpgsql
    set lock_timeout = '200ms'
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_now       constant bigint := longshore.clock(p_now);
    v_arrival   constant bigint := longshore.arrival(v_now);
    v_firsts    uuid[];
    v_verdicts  text[];
    v_arrivals  bigint[];
    v_first_due bigint[];
    v_due       bigint;
    v_admitted  uuid[] := '{}';
    v_owners    text[] := '{}';
    v_dues      bigint[] := '{}';
    v_job       record;
    v_known     record;
    v_state     text;
begin
    select array_agg(r.id), array_agg(r.verdict), array_agg(r.created_at), array_agg(r.run_at)
      into v_firsts, v_verdicts, v_arrivals, v_first_due
      from longshore.recall(p_ids, p_tenants, p_keys, p_fingerprints) r;
    if array_position(v_verdicts, null) is null then
        return query
        select t.*, v_now from unnest(v_firsts, v_verdicts, v_arrivals, v_first_due) t;
        return;
    end if;
    clock := v_now;
    for v_job in
        select t.*
          from unnest(p_ids, p_tenants, p_keys, p_fingerprints, p_uniques, p_run_ats, p_delays,
                      v_firsts, v_verdicts, v_arrivals, v_first_due) with ordinality
               as t (id, tenant, key, fingerprint, unique_key, run_at, delay, first, verdict,
                     first_created_at, first_run_at, place)
         order by t.place
    loop
        if v_job.verdict is not null then
            id := v_job.first;
            verdict := v_job.verdict;
            created_at := v_job.first_created_at;
            run_at := v_job.first_run_at;
            return next;
            continue;
        end if;
        id := v_job.id;
        verdict := 'accepted';
        created_at := v_arrival;
        v_due := coalesce(v_job.run_at, v_now + v_job.delay);
        run_at := case when v_due > v_now then v_due else v_arrival end;
        if id = any (v_admitted)
           and v_owners[array_position(v_admitted, id)] = v_job.tenant then
            verdict := 'repeated';
            run_at := v_dues[array_position(v_admitted, id)];
        elsif id = any (v_admitted) then
            verdict := 'taken';
            created_at := null;
            run_at := null;
            select k.id, k.fingerprint, k.created_at, k.run_at into v_known
              from longshore.idempotency k
             where k.tenant = v_job.tenant and k.key = v_job.key;
            if found then
                id := v_known.id;
                verdict := 'conflict';
                if v_known.fingerprint = v_job.fingerprint then
                    verdict := 'repeated';
                    created_at := v_known.created_at;
                    run_at := v_known.run_at;
                end if;
            end if;
        end if;
        if verdict = 'accepted' and v_job.key is not null then
            loop
                insert into longshore.idempotency
                    (tenant, key, fingerprint, id, created_at, run_at)
                values (v_job.tenant, v_job.key, v_job.fingerprint, v_job.id, v_arrival, run_at)
                on conflict do nothing;
                exit when found;
                select k.id, k.fingerprint, k.created_at, k.run_at into v_known
                  from longshore.idempotency k
                 where k.tenant = v_job.tenant and k.key = v_job.key;
                -- A key may be pruned between the two.
                continue when not found;
                id := v_known.id;
                created_at := null;
                run_at := null;
                verdict := 'conflict';
                if v_known.fingerprint = v_job.fingerprint then
                    verdict := 'repeated';
                    created_at := v_known.created_at;
                    run_at := v_known.run_at;
                end if;
                exit;
            end loop;
        end if;
        if verdict = 'accepted' and v_job.unique_key is not null then
            insert into longshore.uniqueness (tenant, key, id)
            values (v_job.tenant, v_job.unique_key, v_job.id) on conflict do nothing;
            if not found then
                select u.id into v_known from longshore.uniqueness u
                 where u.tenant = v_job.tenant and u.key = v_job.unique_key for update;
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
                     where k.tenant = v_job.tenant and k.key = v_job.key and k.id = v_job.id;
                else
                    update longshore.uniqueness u set id = v_job.id
                     where u.tenant = v_job.tenant and u.key = v_job.unique_key;
                end if;
            end if;
        end if;
        if verdict = 'accepted' then
            v_admitted := v_admitted || id;
            v_owners := v_owners || v_job.tenant;
            v_dues := v_dues || run_at;
        end if;
        return next;
    end loop;
end
$$;

-- Submit jobs of which some have keys, members k_*, or unique keys, members u_*. A unique
-- violation, with nothing stored, if one of the keys is known: then `admit` has to look at each.
-- `on conflict` would take a third longer for each of them.
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
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_now     bigint := longshore.clock(p_now);
    v_arrival bigint := longshore.arrival(v_now);
begin
    -- In the order of the keys, so that two batches do not wait for each other in a circle.
    insert into longshore.idempotency (tenant, key, fingerprint, id, created_at, run_at)
    select t.tenant, t.key, t.fingerprint, t.id, v_arrival,
           case when coalesce(t.run_at, v_now + t.delay) > v_now
                then coalesce(t.run_at, v_now + t.delay) else v_arrival end
      from unnest(k_tenant, k_key, k_fingerprint, k_id, k_run_at, k_delay)
           as t (tenant, key, fingerprint, id, run_at, delay)
     order by t.tenant, t.key;
    if cardinality(u_key) > 0 then
        insert into longshore.uniqueness (tenant, key, id)
        select t.tenant, t.key, t.id from unnest(u_tenant, u_key, u_id) as t (tenant, key, id)
         order by t.tenant, t.key;
    end if;
    return longshore.submit(v_now, v_arrival, g_queue, g_type, g_tenant, g_priority,
                            g_max_attempts, g_timeout, g_from, g_to, g_weight, g_ids, g_keys,
                            g_attributes, s_group, s_lo, s_hi, s_run_at, s_delay, s_queue,
                            s_type, s_types, g_payloads, p_bounds, p_types, p_tenants, p_body,
                            p_wakes);
end
$$;

-- A JSON array of texts as a list.
create function longshore.texts(p_list jsonb) returns text[] language sql immutable
begin atomic
    select array(select jsonb_array_elements_text(p_list));
end;

-- Store jobs in the caller's transaction, if this is the `store` that the caller means; else
-- null. `asked` are the arguments of longshore.admit and `given` those of longshore.submit, by
-- name; bytes are in hex. Answers with the id, the verdict and the times of each that was asked
-- for. Unless all of them were accepted nothing is stored yet: the caller sends the accepted
-- ones again, with nothing asked, and with `now` and `arrival` as they were told.
create function longshore.submit_json(p_call text) returns text language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_call constant jsonb := p_call;
    a constant jsonb := v_call -> 'asked';
    g constant jsonb := v_call -> 'given';
    v_now      bigint := v_call ->> 'now';
    v_arrival  bigint := v_call ->> 'arrival';
    v_answers  jsonb := '[]';
    v_accepted boolean := true;
begin
    if longshore.store() is distinct from v_call ->> 'store' then
        return null;
    end if;
    if a is not null then
        select jsonb_agg(jsonb_build_array(t.id, t.verdict, t.created_at, t.run_at)
                         order by t.place),
               bool_and(t.verdict = 'accepted'), max(t.clock),
               max(t.created_at) filter (where t.verdict = 'accepted')
          into v_answers, v_accepted, v_now, v_arrival
          from longshore.admit(
                   v_now, longshore.texts(a -> 'ids')::uuid[], longshore.texts(a -> 'tenants'),
                   longshore.texts(a -> 'keys'), longshore.texts(a -> 'fingerprints')::bytea[],
                   longshore.texts(a -> 'uniques'), longshore.texts(a -> 'run_ats')::bigint[],
                   longshore.texts(a -> 'delays')::bigint[])
               with ordinality as t (id, verdict, created_at, run_at, clock, place);
    end if;
    if v_accepted then
        perform longshore.submit(
            v_now, v_arrival,
            longshore.texts(g -> 'g_queue'), longshore.texts(g -> 'g_type'),
            longshore.texts(g -> 'g_tenant'), longshore.texts(g -> 'g_priority')::smallint[],
            longshore.texts(g -> 'g_max_attempts')::integer[],
            longshore.texts(g -> 'g_timeout')::bigint[],
            longshore.texts(g -> 'g_from')::integer[], longshore.texts(g -> 'g_to')::integer[],
            longshore.texts(g -> 'g_weight')::integer[],
            longshore.texts(g -> 'g_ids')::bytea[], longshore.texts(g -> 'g_keys'),
            longshore.texts(g -> 'g_attributes'),
            longshore.texts(g -> 's_group')::integer[],
            longshore.texts(g -> 's_lo')::smallint[], longshore.texts(g -> 's_hi')::smallint[],
            longshore.texts(g -> 's_run_at')::bigint[],
            longshore.texts(g -> 's_delay')::bigint[],
            longshore.texts(g -> 's_queue'), longshore.texts(g -> 's_type'),
            longshore.texts(g -> 's_types'),
            longshore.texts(g -> 'g_payloads')::bytea[],
            longshore.texts(g -> 'p_bounds')::integer[],
            longshore.texts(g -> 'p_types'), longshore.texts(g -> 'p_tenants'),
            (g ->> 'p_body')::bytea, true);
        if g ? 'l_ids' then
            perform longshore.line_up_new(
                v_now, v_arrival, longshore.texts(g -> 'l_ids')::uuid[],
                longshore.texts(g -> 'l_run_ats')::bigint[],
                longshore.texts(g -> 'l_delays')::bigint[], true);
        end if;
    end if;
    return jsonb_build_object('answers', v_answers, 'stored', v_accepted, 'now', v_now,
                              'arrival', v_arrival);
end
$$;

-- How many jobs wait where no more than so many may: of a queue, with no tenant; of its tenants;
-- and with an empty tenant of any that has none.
create function longshore.depths()
returns table (queue text, tenant text, most bigint, jobs bigint) language sql stable
begin atomic
    select f.queue, null::text, (f.settings ->> 'max_depth')::bigint,
           (coalesce((select sum(r.size) from longshore.ready r where r.queue = f.queue), 0)
            + (select count(*) from longshore.parked p where p.queue = f.queue)
            + coalesce((select sum(s.size) from longshore.scheduled s
                          where s.queue = f.queue), 0))::bigint
      from longshore.flow f where f.settings ? 'max_depth'
    union all
    select f.queue, w.tenant, (f.settings ->> 'max_depth_per_tenant')::bigint,
           sum(w.jobs)::bigint
      from longshore.flow f cross join lateral (
           select o.tenant, o.jobs
             from longshore.ready r join longshore.segment s on s.segment = r.segment
            cross join lateral longshore.owners(s, r.lo, r.hi, r.mask, r.size) o
            where r.queue = f.queue
           union all
           select p.tenant, 1 from longshore.parked p where p.queue = f.queue
           union all
           select o.tenant, o.jobs
             from longshore.scheduled r join longshore.segment s on s.segment = r.segment
            cross join lateral longshore.owners(s, r.lo, r.hi, r.mask, r.size) o
            where r.queue = f.queue
           union all
           select '', 0) w
     where f.settings ? 'max_depth_per_tenant'
     group by f.queue, f.settings, w.tenant;
end;

-- How deep queues are, for a caller's connection, as longshore.submit_json: null if this is not
-- the `store` that the caller means. With `ids` and the rest that longshore.recall takes, which
-- of these jobs stand already, by their places from 1, and nothing is counted: a full queue
-- answers again what it has answered before.
create function longshore.depths_json(p_call text) returns text language sql stable
begin atomic
    select jsonb_build_object(
               'depths', case when c.call -> 'ids' is null then coalesce((
                   select jsonb_agg(jsonb_build_array(d.queue, d.tenant, d.most, d.jobs))
                     from longshore.depths() d), '[]') else '[]' end,
               'known', case when c.call -> 'ids' is null then '[]' else coalesce((
                   select jsonb_agg(r.place)
                     from longshore.recall(
                              array(select jsonb_array_elements_text(c.call -> 'ids')::uuid),
                              array(select jsonb_array_elements_text(c.call -> 'tenants')),
                              array(select jsonb_array_elements_text(c.call -> 'keys')),
                              array(select jsonb_array_elements_text(
                                               c.call -> 'fingerprints')::bytea)) r
                    where r.verdict is not null), '[]') end)
      from (select p_call::jsonb) as c (call)
     where longshore.store() = c.call ->> 'store';
end;
