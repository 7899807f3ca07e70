-- Queues: pauses, limits on how many jobs run and start, and token buckets.

-- Queues and types of which nothing is claimed. An empty string stands for any.
create table longshore.pause (
    queue text collate "C" not null,
    type  text collate "C" not null,
    primary key (queue, type)
);

-- What holds for a queue, from both layers of its settings: the one thing that a claim reads. It
-- is changed by those who claim alone from the queue (flow_key). `empty_at` is the queue's
-- bucket, in nanoseconds (core.token_bucket); `is_full`: somebody was refused because too many
-- run; `vtime` is how far a fair queue is (core.fair_queueing); `sorted_by` is the transaction
-- that made the queue fair, until all that were under way with it have ended: they may have put
-- jobs into no lane.
create table longshore.flow (
    queue     text collate "C" primary key,
    settings  jsonb   not null,
    empty_at  bigint,
    is_full   boolean not null default false,
    vtime     bigint  not null default 0,
    sorted_by xid8
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- How many jobs each session holds of a queue with `max_running`, as it said last. A row counts as
-- long as its session is there.
create table longshore.running (
    queue text collate "C" not null,
    token bigint  not null,
    jobs  integer not null,
    primary key (queue, token)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Token buckets that processes share. `empty_at` is in nanoseconds: core.token_bucket says what it
-- means. A bucket that is full is like one that is not there.
create table longshore.bucket (
    name     text collate "C" primary key,
    empty_at bigint not null default 0,
    full_at  bigint not null default 0
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
create index bucket_age on longshore.bucket (full_at);

-- What is stored of a bucket, which nobody else touches until the transaction ends. The clock
-- is read behind the wait for it: time that passed meanwhile has filled it.
create function longshore.bucket_hold(p_name text, p_now bigint, out empty_at bigint,
                                      out now bigint) language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    loop
        select b.empty_at into empty_at from longshore.bucket b where b.name = p_name
           for no key update;
        exit when found;
        -- It may be pruned before it is held, so look again.
        insert into longshore.bucket (name) values (p_name) on conflict do nothing;
    end loop;
    now := longshore.clock(p_now);
end
$$;

-- Delete up to p_limit buckets that are full; returns how many there were. Those that someone
-- borrows from just now are left to the next call.
create function longshore.prune_buckets(p_now bigint, p_limit integer) returns integer
language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_count integer;
begin
    delete from longshore.bucket b where b.ctid = any (array(
        select x.ctid from longshore.bucket x where x.full_at <= p_now
         order by x.full_at limit p_limit for update skip locked));
    get diagnostics v_count = row_count;
    return v_count;
end
$$;

-- How many nanoseconds a bucket takes to be given p_tokens, at p_rate per thousand seconds; the
-- same as in core.token_bucket.
create function longshore.filling(p_rate bigint, p_tokens bigint) returns bigint
language sql immutable
begin atomic
    select (p_tokens * 1000000000000 + p_rate - 1) / p_rate;
end;

-- Since when a bucket has been filling, in nanoseconds: the time at which it was empty, or would
-- have been if it is full; the same as in core.token_bucket.
create function longshore.filled_since(
    p_empty_at bigint, p_rate bigint, p_burst bigint, p_now bigint
) returns bigint language sql immutable
begin atomic
    select least(greatest(p_now * 1000 - longshore.filling(p_rate, p_burst), p_empty_at),
                 p_now * 1000);
end;

-- The limits in the settings of a queue, for claims: the rates as whole numbers. In PL/pgSQL, like
-- all that claims call: a function in SQL is planned anew with each call.
create function longshore.limits_of(
    p_settings jsonb, out max_running integer, out rate bigint, out burst bigint
) language plpgsql immutable
    set search_path = pg_catalog, pg_temp
as $$
begin
    max_running := p_settings ->> 'max_running';
    if p_settings ? 'rate' then
        rate := round((p_settings ->> 'rate')::numeric * 1000);
        burst := coalesce((p_settings ->> 'burst')::bigint,
                          greatest(ceil((p_settings ->> 'rate')::numeric), 1)::bigint);
    end if;
end
$$;

-- The key of the advisory lock that is held, until the transaction ends, by whoever claims from a
-- queue with a limit: shared by several, or alone.
create function longshore.flow_key(p_queue text) returns bigint language sql immutable
begin atomic
    select hashtextextended(p_queue, 7813585269108010870);
end;

-- Whether so few run that all who claim at once, each no more than p_want, stay below the limit:
-- as many claims are under way as there are rows at most, for a row is added by one who is alone.
-- A quarter runs, and half may be under way.
create function longshore.is_loose(
    p_token bigint, p_queue text, p_max_running integer, p_want integer
) returns boolean language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select coalesce(bool_or(r.token = p_token), false)
               and sum(r.jobs) <= p_max_running / 4
               and p_want <= p_max_running / (2 * count(*))
          from longshore.running r where r.queue = p_queue);
end
$$;

-- Keep others from claiming more of these queues than their limits leave: those who would not
-- come near a limit claim beside each other, whoever may claims alone, and so does everybody
-- who claims from a fair queue. Returns the queues from which this transaction claims alone.
create function longshore.hold_flow(p_token bigint, p_queues text[], p_want integer)
returns text[] language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_flow  record;
    v_alone text[] := '{}';
begin
    for v_flow in
        -- In one order for all, so that no two wait for each other.
        select f.queue, f.is_full, l.max_running, l.rate
          from longshore.flow f cross join lateral longshore.limits_of(f.settings) l
         where f.queue = any (p_queues)
           and (f.settings ?| array['max_running', 'rate'] or f.settings ->> 'order' = 'fair')
         order by f.queue
    loop
        if v_flow.rate is null and not v_flow.is_full
           and longshore.is_loose(p_token, v_flow.queue, v_flow.max_running, p_want) then
            perform pg_advisory_xact_lock_shared(longshore.flow_key(v_flow.queue));
        else
            perform pg_advisory_xact_lock(longshore.flow_key(v_flow.queue));
            v_alone := v_alone || v_flow.queue;
        end if;
    end loop;
    return v_alone;
end
$$;

-- How many jobs of each queue a claim may take (null: any number), behind hold_flow; null where
-- no queue has a limit.
create function longshore.rooms(
    p_token bigint, p_now bigint, p_queues text[], p_alone text[], p_want integer
) returns integer[] language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_flow  record;
    v_room  bigint;
    v_rooms integer[];
    v_since bigint;
begin
    for v_flow in
        select f.queue, f.empty_at, l.max_running, l.rate, l.burst,
               array_position(p_queues, f.queue) as place
          from longshore.flow f cross join lateral longshore.limits_of(f.settings) l
         where f.queue = any (p_queues) and f.settings ?| array['max_running', 'rate']
    loop
        v_room := p_want;
        if v_flow.max_running is not null
           and not longshore.is_loose(p_token, v_flow.queue, v_flow.max_running, p_want) then
            if v_flow.queue = any (p_alone) then
                perform longshore.enter_running(p_token, v_flow.queue);
                v_room := greatest(v_flow.max_running - longshore.running_of(v_flow.queue), 0);
            else
                -- It has filled up since we looked, or its settings are new.
                v_room := 0;
            end if;
        end if;
        if v_flow.rate is not null and v_flow.queue = any (p_alone) then
            v_since := longshore.filled_since(v_flow.empty_at, v_flow.rate, v_flow.burst, p_now);
            v_room := least(v_room, (p_now * 1000 - v_since) * v_flow.rate / 1000000000000);
        elsif v_flow.rate is not null then
            v_room := 0;
        end if;
        v_rooms[v_flow.place] := least(v_room, p_want);
    end loop;
    if v_rooms is not null then
        return array(select v_rooms[i] from generate_subscripts(p_queues, 1) i order by i);
    end if;
    return null;
end
$$;

-- Give every session a row in `running` for a queue, so that it is counted.
create function longshore.enter_running(p_token bigint, p_queue text) returns void
language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from longshore.session s where not exists (
                   select from longshore.running r
                    where r.queue = p_queue and r.token = s.token)) then
        delete from longshore.running r
         where r.queue = p_queue
           and not exists (select from longshore.session s where s.token = r.token);
        insert into longshore.running
        select p_queue, s.token, longshore.held_of(s.token, p_queue)
          from longshore.session s
         where not exists (select from longshore.running r
                            where r.queue = p_queue and r.token = s.token)
            on conflict do nothing;
    end if;
end
$$;

-- How many jobs of a queue run in the whole fleet.
create function longshore.running_of(p_queue text) returns bigint language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select coalesce(sum(r.jobs), 0)
          from longshore.running r cross join lateral (
               select from longshore.session x where x.token = r.token offset 0) s
         where r.queue = p_queue);
end
$$;

-- Change how many jobs a session is counted to hold of these queues, where it is counted: by
-- queue what it says it holds, else what the store knows. Whoever adds a row claims alone from
-- the queue. Of p_claims it goes on to claim: those may be as full as before when it is done.
create function longshore.tell_running(
    p_token bigint, p_queues text[], p_holds jsonb, p_claims text[]
) returns void language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_freed text[];
begin
    with said as (
        select r.queue, r.jobs as before,
               coalesce((p_holds ->> r.queue)::integer,
                        longshore.held_of(p_token, r.queue)) as jobs
          from longshore.running r where r.queue = any (p_queues) and r.token = p_token
    ), told as (
        update longshore.running r set jobs = s.jobs from said s
         where r.token = p_token and r.queue = s.queue and s.jobs <> s.before
        returning r.queue, s.jobs < s.before and r.queue <> all (p_claims) as is_freed
    )
    select array_agg(t.queue) filter (where t.is_freed) into v_freed from told t;
    if v_freed is not null then
        perform longshore.call_waiting(v_freed);
    end if;
end
$$;

-- Wake those who wait for room in one of these queues.
create function longshore.call_waiting(p_queues text[]) returns void language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from longshore.flow f where f.queue = any (p_queues) and f.is_full) then
        perform pg_notify('longshore', '');
    end if;
end
$$;

-- Free what a session that is gone held, and wake those who wait for room.
create function longshore.leave_running(p_token bigint) returns void language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_freed text[];
begin
    with gone as (
        delete from longshore.running r using longshore.flow f
         where r.queue = f.queue and r.token = p_token
        returning r.queue
    )
    select array_agg(g.queue) into v_freed from gone g;
    if v_freed is not null then
        perform longshore.call_waiting(v_freed);
    end if;
end
$$;

-- Note what a claim took of queues with limits. If they held jobs back, returns how many
-- microseconds later it pays to ask again.
create function longshore.took(
    p_token bigint, p_now bigint, p_queues text[], p_types text[], p_want integer,
    p_rooms integer[], p_takens integer[]
) returns bigint language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    c_second constant bigint := 1000000;
    v_flow   record;
    v_taken  integer;
    v_full   boolean;
    v_since  bigint;
    v_left   integer;
    v_worth  bigint;
    v_look   bigint;
begin
    for v_flow in
        select f.queue, f.empty_at, f.is_full, l.max_running, l.rate, l.burst,
               array_position(p_queues, f.queue) as place
          from longshore.flow f cross join lateral longshore.limits_of(f.settings) l
         where f.queue = any (p_queues) and f.settings ?| array['max_running', 'rate']
    loop
        v_taken := coalesce(p_takens[v_flow.place], 0);
        v_full := false;
        if v_flow.max_running is not null then
            if v_taken > 0 then
                update longshore.running r set jobs = r.jobs + v_taken
                 where r.queue = v_flow.queue and r.token = p_token;
            end if;
            v_full := longshore.running_of(v_flow.queue) >= v_flow.max_running;
        end if;
        v_since := v_flow.empty_at;
        if v_flow.rate is not null then
            v_since := longshore.filled_since(v_flow.empty_at, v_flow.rate, v_flow.burst, p_now);
            if v_taken > 0 then
                v_since := v_since + longshore.filling(v_flow.rate, v_taken);
            end if;
        end if;
        if v_full <> v_flow.is_full or (v_taken > 0 and v_flow.rate is not null) then
            update longshore.flow f set is_full = v_full, empty_at = v_since
             where f.queue = v_flow.queue;
        end if;
        if v_flow.is_full and not v_full then
            perform pg_notify('longshore', '');
        end if;
        v_left := p_want - coalesce((
            select sum(t.taken) from unnest(p_takens) with ordinality as t (taken, place)
             where t.place < v_flow.place), 0);
        if p_rooms[v_flow.place] < v_left and v_taken = p_rooms[v_flow.place]
           and longshore.has_ready(v_flow.queue, p_types) then
            v_worth := least(v_flow.burst, greatest(v_flow.rate / 100000, 1));
            v_look := least(v_look, c_second, case
                when (p_now * 1000 - v_since) * v_flow.rate / 1000000000000 = 0 then
                    (v_since + longshore.filling(v_flow.rate, v_worth) + 999) / 1000 - p_now
                end);
        end if;
    end loop;
    return v_look;
end
$$;
