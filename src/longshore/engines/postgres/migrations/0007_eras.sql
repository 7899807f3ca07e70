-- A claim of a session that waited need not wait for the disk: what a crash of the server takes
-- back is claimed again by the session that heard of it, before anyone else may claim.
-- Decision 0025 has the reasons; tests/engines/test_postgres_lost_claims.py the proof.

-- From one crash of the server to the next. The table is unlogged: a crash empties it, also one
-- that the server recovers from without a restart, and so does a standby that takes over; an
-- orderly restart does not. One row at most.
create unlogged table longshore.era (
    is_only  boolean primary key default true check (is_only),
    number   bigint  not null,
    is_clear boolean not null default false
);
comment on column longshore.era.is_clear is
    'whether each session that waited before it has been heard of since, or is over';

-- The number of this era, which begins with the first call of it.
create function longshore.current_era() returns bigint language plpgsql as $$
declare
    v_number bigint;
begin
    select e.number into v_number from longshore.era e;
    if not found then
        insert into longshore.era (number) values ((random() * (1::bigint << 62))::bigint)
        on conflict do nothing;
        select e.number into v_number from longshore.era e;
    end if;
    return v_number;
end
$$;

-- Whether claims may be made in this era: a session of which `waiting` tells from before it may
-- run jobs that nobody else knows to be claimed. Only a session that comes back leaves the list.
create function longshore.clear_up(p_now bigint) returns boolean language plpgsql as $$
begin
    if exists (select from longshore.waiting w join longshore.session s using (token)
                where s.expires_at > p_now) then
        return false;
    end if;
    update longshore.era e set is_clear = true where not e.is_clear;
    return true;
end
$$;

-- What a live session has to know to go on in this era: its number, and that of the session's
-- last exchange. From now on claims need not wait for it. No row when the lease is over.
create function longshore.check_in(
    p_token bigint, p_now bigint, p_era bigint, out era bigint, out last bigint
) returns setof record language plpgsql
    set enable_seqscan = off
as $$
begin
    perform from longshore.session s
      where s.token = p_token and s.expires_at > longshore.clock(p_now) for no key update;
    if found then
        era := longshore.current_era();
        select max(e.number) into last from longshore.exchanged e where e.token = p_token;
        if era is distinct from p_era then
            delete from longshore.waiting w where w.token = p_token;
        end if;
        return next;
    end if;
end
$$;

-- These knew of no era; code that would call them has left.
drop function longshore.exchange;
drop function longshore.complete;

-- Settle what finished and claim what is next. The first row of the answer has part -1 and
-- says, as JSON in `attributes`: `now`; `status` applied, idle (there was nothing to do),
-- repeated, order, lost, heed or doubt (nothing was applied in the last four); `last` number
-- applied; `refused` of a repeated exchange; the `cancel` requests; whether all queues are
-- `paused`; whether jobs were `missed` because someone else was just taking them; whether the
-- era is `clear`, without which nothing is claimed.
-- p_soft are settled claims that a request to cancel would settle otherwise: when one of them
-- has such a request that the session had not heard of, it has to decide again (heed).
-- A session of another era has to check in first (doubt).
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
    p_rare jsonb, p_body bytea, p_era bigint
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
    v_era    bigint;
    v_clear  boolean;
    v_last   bigint;
    v_refused text;
    v_status text := 'applied';
    v_open   text[];
    v_got    integer := 0;
    v_missed tid;
    v_cancel jsonb;
begin
    select e.number, e.is_clear into v_era, v_clear from longshore.era e;
    if v_era is distinct from p_era then
        v_status := 'doubt';
    elsif not p_settles and p_refused = '[]'
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
    if v_status = 'applied' and p_want > 0 and not v_clear then
        v_clear := longshore.clear_up(v_now);
        if not v_clear and not p_settles and p_refused = '[]' then
            v_status := 'idle';
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
        if p_want > 0 and v_clear and v_open is not null then
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
        if p_want > 0 and v_got = 0 and v_missed is null and v_clear then
            insert into longshore.waiting values (p_token) on conflict do nothing;
        else
            delete from longshore.waiting w where w.token = p_token;
            if found and v_got > 0 and not p_settles and p_refused = '[]' then
                -- A crash that takes this back brings back the row which says that we waited,
                -- for that is on the disk: until we have checked in, nobody claims.
                perform set_config('synchronous_commit', 'off', true);
            end if;
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
                           'missed', v_got = 0 and v_missed is not null,
                           'clear', coalesce(v_clear, true))::text;
    if v_got > 0 or v_status = 'repeated' then
        return query select * from longshore.claimed(p_token, p_number);
    end if;
end
$$;

-- End a job well in the transaction of its handler. The lock on the session's row is the fence:
-- whoever buries the session waits for this transaction to end, and reads the journal after.
-- Calls of the session itself go on. Null, with nothing written, when the lease is over, and 0
-- when the session has to check in first.
create function longshore.complete(
    p_token bigint, p_now bigint, p_entry bigint, p_handle bigint, p_delivery integer,
    p_started bigint, p_result bytea, p_body bytea, p_era bigint
) returns bigint language plpgsql
    set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
    v_now bigint := longshore.clock(p_now);
begin
    perform from longshore.session s
      where s.token = p_token and s.expires_at > v_now for key share;
    if not found then
        return null;
    end if;
    if (select e.number from longshore.era e) is distinct from p_era then
        return 0;
    end if;
    insert into longshore.journal
    values (p_token, p_entry, v_now, array[p_handle], array[p_delivery], array[1],
            array[least(p_started, v_now)], array[v_now]);
    if p_result is not null then
        insert into longshore.result values (p_handle >> 12, p_handle & 4095, p_result);
    end if;
    insert into longshore.outbox (at, body) values (v_now, p_body);
    return v_now;
end
$$;
