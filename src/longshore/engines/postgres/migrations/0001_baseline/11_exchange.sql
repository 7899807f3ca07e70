-- Exchange: settle what finished, and claim what is next.

-- Apply what a session, or whoever buries it, decided: the caller holds the session's row.
-- Members c_* are claimed spans that leave (c_rest is null) or shrink to the mask c_rest;
-- f_* are spans that succeeded, with their times; j_* is a row of the journal; p_forget are
-- rows of it that nobody needs any more; r_* are results; t_* is a row of the tally, of all that
-- finishes here. p_rare is what happens to few: spans that become ready or scheduled again,
-- that died or were cancelled, and their history; and jobs that leave their `lines`.
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
    set search_path = pg_catalog, pg_temp
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
        if p_rare ? 'finished' then
            perform longshore.settle_rare(p_token, p_now, p_worker, p_rare);
        end if;
        if p_rare ? 'lines' then
            perform longshore.leave_lines(p_rare -> 'lines', p_now);
        end if;
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

-- Apply the part of a settlement that happens to few jobs: p_rare of longshore.settle. Of the
-- reports of a job there is one at most.
create function longshore.settle_rare(
    p_token bigint, p_now bigint, p_worker text, p_rare jsonb
) returns void language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
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
        perform longshore.arrange(array(
            select (t ->> 'segment')::bigint from jsonb_array_elements(p_rare -> 'ready') t));
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

-- Whether an exchange that settles nothing would change nothing: then it writes nothing, not
-- even a lock, and need not wait for the disk.
create function longshore.is_idle(
    p_token bigint, p_number bigint, p_now bigint, p_queues text[], p_want integer
) returns boolean language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
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
-- repeated, order, lost, heed or doubt (nothing was applied in the last four); `last` number
-- applied; `refused` of a repeated exchange; the `cancel` requests; whether all queues are
-- `paused`; whether jobs were `missed` because someone else was just taking them; whether the
-- era is `clear`, without which nothing is claimed; which queues are `limited` in how many of
-- their jobs run: of these p_holds tells, by queue, how many the session still holds; and, if a
-- limit held jobs back, `look_in` how many microseconds it pays to ask again; which types have
-- a breaker (`breakers`), and which of those that are wanted are `probed`, or `due` to be.
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
    p_rare jsonb, p_body bytea, p_era bigint, p_holds jsonb default '{}'
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
    set search_path = pg_catalog, pg_temp
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
    v_flow   boolean;
    v_fair   text[];
    v_limited text[];
    v_alone  text[];
    v_rooms  integer[];
    v_takens integer[];
    v_look   bigint;
    v_breakers text[];
    v_types  text[] := p_types;
    v_probed text[];
    v_due    text[];
    v_wait   bigint;
    v_later  bigint;
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
        select true, array_agg(f.queue) filter (where f.settings ? 'max_running'),
               array_agg(f.queue) filter (where f.settings ->> 'order' = 'fair')
          into v_flow, v_limited, v_fair from longshore.flow f having count(*) > 0;
        if v_flow and p_want > 0 and v_clear and v_open is not null then
            -- Before it changes what others count of it: who changes a limit waits for that.
            v_alone := longshore.hold_flow(p_token, v_open, p_want);
        end if;
        if v_limited is not null then
            perform longshore.tell_running(
                p_token, v_limited, p_holds,
                case when p_want > 0 and v_clear then coalesce(v_open, '{}') else '{}' end);
        end if;
        select array_agg(b.type) into v_breakers from longshore.breaker b;
        if v_breakers is not null then
            select s.types, s.probed, s.due, s.look into v_types, v_probed, v_due, v_wait
              from longshore.sift(v_now, p_types) s;
        end if;
        if p_want > 0 and v_clear and v_open is not null then
            if v_flow then
                v_rooms := longshore.rooms(p_token, v_now, v_open, v_alone, p_want);
            end if;
            -- Probes go alone: what a breaker waits for is few, and comes first.
            if v_probed is not null then
                select p.taken, p.takens, p.look into v_got, v_takens, v_later
                  from longshore.probe(p_token, p_number, v_now, v_open, v_probed, p_want,
                                       v_rooms, v_fair) p;
                v_wait := least(v_wait, v_later);
            end if;
            -- Of several who waited for the same span one has it next, and leaves some or none.
            for v_try in 1 .. 4 loop
                exit when v_got > 0;
                select c.taken, c.missed, c.takens into v_got, v_missed, v_takens
                  from longshore.claim(p_token, p_number, v_now, v_open, v_types, p_want,
                                       v_rooms, v_fair) c;
                exit when v_got > 0 or v_missed is null or v_try = 4
                     or not longshore.await_span(v_missed);
            end loop;
            if v_rooms is not null then
                v_look := longshore.took(p_token, v_now, v_open, v_types, p_want, v_rooms,
                                         v_takens);
            end if;
            if v_got < p_want then
                v_look := least(v_look, v_wait);
            end if;
        end if;
        delete from longshore.exchanged e where e.token = p_token and e.number = v_last;
        insert into longshore.exchanged values (p_token, p_number, p_refused);
        -- Where no queue has room, jobs that come are no reason to look.
        if p_want > 0 and v_got = 0 and v_missed is null and v_clear
           and (v_rooms is null or exists (
                select from unnest(v_rooms) r where coalesce(r, 1) > 0)) then
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
                           'clear', coalesce(v_clear, true),
                           'limited', v_limited, 'fair', v_fair, 'look_in', v_look,
                           'breakers', v_breakers, 'due', v_due, 'probed', v_probed)::text;
    if v_got > 0 or v_status = 'repeated' then
        return query select * from longshore.claimed(p_token, p_number);
    end if;
end
$$;

-- An exchange that only claims, of a session that waited: nearly always for the one span that
-- woke it, in a store where no rule holds anything back. That takes three statements; in
-- `exchange` it takes seventeen, of which an idle server finds none in its caches. Whatever is
-- not that simple is left to `exchange`, with nothing changed before.
create function longshore.pick_up(
    p_token bigint, p_number bigint, p_now bigint, p_queues text[], p_types text[],
    p_want integer, p_era bigint
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
    set search_path = pg_catalog, pg_temp
as $$
declare
    c_long  constant interval := '3 milliseconds';
    v_began constant timestamptz := clock_timestamp();
    v_now   bigint := longshore.clock(p_now);
    v_spans tid[];
    v_off   text;
begin
    select array(
               select r.tid from unnest(p_queues) as w (queue) cross join lateral (
                   select x.ctid as tid from longshore.ready x where x.queue = w.queue limit 2) r
                limit 2)
      into v_spans
      from longshore.era e
     where e.number = p_era and e.is_clear and p_want > 0
       and exists (select from longshore.waiting w where w.token = p_token)
       and not exists (select from longshore.request q where q.token = p_token)
       and not exists (select from longshore.horizon h where h.queue = any (p_queues))
       and not exists (select from longshore.pause)
       and not exists (select from longshore.flow)
       and not exists (select from longshore.breaker);
    -- Who takes long to find it has to look ahead: see `claim`.
    if cardinality(v_spans) = 1 and clock_timestamp() - v_began < c_long then
        -- The lock on the session's row is the fence: it keeps reclaim away until we commit.
        perform from longshore.session s
          where s.token = p_token and s.expires_at > v_now for no key update;
        if found then
            return query
            with free as materialized (
                select r.ctid as tid from longshore.ready r
                 where r.ctid = v_spans[1] and r.size <= p_want and r.queue = any (p_queues)
                   and case when r.types is null then r.type = any (p_types)
                            else r.types <@ p_types end
                   and not exists (select from longshore.exchanged e
                                    where e.token = p_token and e.number >= p_number)
                   for update skip locked
            ), gone as (
                delete from longshore.ready r using free f where r.ctid = f.tid returning r.*
            ), come as (
                insert into longshore.claim
                    (token, number, part, segment, lo, hi, size, weight, mask, rank, run_at,
                     delivery, attempt, failures, crashes, lapses)
                select p_token, p_number, 1, g.segment, g.lo, g.hi, g.size, g.weight, g.mask,
                       g.rank, g.run_at, g.delivery + 1, g.attempt, g.failures, g.crashes,
                       g.lapses
                  from gone g
                returning *
            ), before as (
                delete from longshore.exchanged e using come c
                 where e.token = p_token and e.number < p_number
            ), noted as (
                insert into longshore.exchanged select p_token, p_number, '[]' from come
            ), busy as (
                delete from longshore.waiting w using come c where w.token = p_token
            )
            select (-1)::smallint, null::bigint, null::smallint, null::smallint, null::smallint,
                   null::integer, null::bytea, null::bigint, null::bigint, null::integer,
                   null::integer, null::integer, null::integer, null::integer, null::text,
                   null::text, null::text, null::smallint, null::integer, null::bigint,
                   null::bigint, null::bytea, null::bytea, null::integer[], null::text[],
                   null::text[],
                   jsonb_build_object('now', v_now, 'status', 'applied', 'last', null,
                                      'refused', null, 'cancel', '[]'::jsonb, 'paused', false,
                                      'missed', false, 'clear', true, 'limited', null,
                                      'fair', null, 'look_in', null, 'breakers', null, 'due', null,
                                      'probed', null)::text
              from come
            union all
            select c.part, c.segment, c.lo, c.hi, c.size, c.weight, c.mask, c.rank, c.run_at,
                   c.delivery, c.attempt, c.failures, c.crashes, c.lapses, s.queue, s.type,
                   s.tenant, s.priority, s.max_attempts, s.timeout, s.created_at,
                   substring(s.ids from c.lo * 16 + 1 for (c.hi - c.lo) * 16),
                   substring(s.payloads from s.bounds[c.lo + 1] + 1
                             for s.bounds[c.hi + 1] - s.bounds[c.lo + 1]),
                   s.bounds[c.lo + 1 : c.hi + 1],
                   s.types[c.lo + 1 : c.hi], s.tenants[c.lo + 1 : c.hi], s.attributes::text
              from come c cross join lateral (
                   select x.* from longshore.segment x where x.segment = c.segment offset 0) s;
            if found then
                -- As in `exchange`: what a crash takes back is claimed again by this session.
                v_off := set_config('synchronous_commit', 'off', true);
                return;
            end if;
        end if;
    end if;
    return query select * from longshore.exchange(
        p_token, p_number, p_now, '[]', '{}', p_queues, p_types, p_want, false, '', null, null,
        null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
        null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
        null, p_era, '{}');
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
    set search_path = pg_catalog, pg_temp
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
