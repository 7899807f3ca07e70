-- Whoever submits the id of another tenant's job learns nothing of that job.
-- longshore: works-with 0021
--
-- Its times were told as if it were the tenant's own, and what was submitted counted as stored.
-- A worker or client of before does not know the verdict `taken`; it meets it only there.

-- What is known of jobs that come, a row each: the one that came first, whether it is the same,
-- and its times. No verdict where nothing is known, or where another of these jobs decides.
-- A key tells when the job was due as it was accepted; without one it is due when it is due now.
-- The id of a job of another tenant is taken, and nothing is said of that job; what the key of
-- the job that comes stands for goes first, as it does for an id that nobody has.
create or replace function longshore.recall(
    p_ids uuid[], p_tenants text[], p_keys text[], p_fingerprints bytea[]
) returns table (place bigint, id uuid, verdict text, created_at bigint, run_at bigint)
language plpgsql stable
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
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
create or replace function longshore.admit(
    p_now bigint, p_ids uuid[], p_tenants text[], p_keys text[], p_fingerprints bytea[],
    p_uniques text[], p_run_ats bigint[], p_delays bigint[]
) returns table (id uuid, verdict text, created_at bigint, run_at bigint, clock bigint)
language plpgsql
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '200ms'
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
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
