-- Beside a forgotten transaction, what a worker serves is found at once, whoever made the notes.
-- longshore: works-with 0021

-- Notes of a queue are made, changed and forgotten all together or not at all: some of them
-- alone would hide what the others told of. So whoever changes any holds a lock of the queue
-- first, until its transaction ends, and who does not get it leaves the notes alone. Nobody waits.
-- At worst jobs that come back with an older rank are then found when the notes are old.
create function longshore.hold_horizon(p_queue text) returns boolean
language sql volatile as $$
    select pg_try_advisory_xact_lock(1819240050, hashtext(p_queue))
$$;

-- The notes of a queue, and all that are old.
create or replace function longshore.forget_horizon(p_queue text) returns void language plpgsql
    set enable_seqscan = off
as $$
declare
    v_queue text;
begin
    for v_queue in
        select distinct h.queue from longshore.horizon h
         where h.queue = p_queue or h.all_at <= clock_timestamp()
    loop
        if longshore.hold_horizon(v_queue) then
            -- Another may have noted this queue again before it was held.
            delete from longshore.horizon h
             where h.queue = v_queue
               and (h.queue = p_queue or h.all_at <= clock_timestamp());
        end if;
    end loop;
end
$$;

-- Those of p_types that take long to look for from the beginning.
create function longshore.long_lanes(p_queue text, p_types text[]) returns text[]
language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
declare
    c_long  constant interval := '0.3 milliseconds';
    v_type  text;
    v_began timestamptz;
    v_long  text[] := '{}';
begin
    foreach v_type in array p_types loop
        v_began := clock_timestamp();
        perform from longshore.ready r where r.queue = p_queue and r.type = v_type
          order by r.rank limit 1;
        if clock_timestamp() - v_began > c_long then
            v_long := v_long || v_type;
        end if;
    end loop;
    return v_long;
end
$$;

-- Note where the first job of these types is, for each priority.
create function longshore.note_horizon(
    p_queue text, p_types text[], p_now bigint, p_until timestamptz
) returns void language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
declare
    c_second constant bigint := 1000000;
    c_band   constant bigint := 1::bigint << 51;
    v_since  constant bigint := least(greatest(p_now - 1704067200000000, 0), c_band - 1);
begin
    insert into longshore.horizon
    select p_queue, t.type,
           greatest(b.band * c_band,
                    coalesce(f.rank, b.band * c_band + v_since) - 2 * c_second),
           (b.band + 1) * c_band, p_until
      from unnest(p_types) as t (type)
     cross join generate_series(2, 19) as b (band)
      left join lateral (
           select r.rank from longshore.ready r
            where r.queue = p_queue and r.type = t.type
              and r.rank >= b.band * c_band and r.rank < (b.band + 1) * c_band
            order by r.rank limit 1) f on true;
end
$$;

-- Jobs that are claimed leave the front of the index by rank. While an old snapshot is open
-- their entries stay there, and every claim would pass over all of them: 30 ms for a hundred
-- thousand. So a claim that took long notes, for types of its queue and each priority, where the
-- first job is, and claims begin there. What comes back with an older rank, such as a retry, is
-- found when the notes are old: after five seconds, or twenty times as long as it took. Noted are
-- the types that are there, that took long to look for, and some that were noted before, though
-- there may be nothing of them just now; the others are looked for from the beginning.
create or replace function longshore.look_ahead(
    p_queue text, p_types text[], p_now bigint, p_took interval
) returns void language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
declare
    c_second constant bigint := 1000000;
    c_old    constant interval := '10 seconds';
    c_known  constant integer := 16;
    v_moment constant timestamptz := clock_timestamp();
    v_dead   constant bigint := pg_stat_get_dead_tuples('longshore.ready'::regclass);
    v_until  timestamptz;
    v_known  text[] collate "C";
    v_lanes  text[] collate "C";
begin
    -- A machine that has much to do is slow too, and notes would only delay what comes back.
    -- Transactions of other users do not show, unless we may read all statistics.
    if v_dead < 2000 or (v_dead < 100000 and not exists (
           select from pg_stat_activity a
            where a.backend_type = 'client backend' and age(a.backend_xmin) > 2000
              and a.xact_start < v_moment - c_old))
       or not pg_try_advisory_xact_lock(7813585269108010869)
       or not longshore.hold_horizon(p_queue) then
        return;
    end if;
    select h.all_at into v_until from longshore.horizon h
     where h.queue = p_queue and h.all_at > v_moment limit 1;
    if found then
        update longshore.horizon h set low = f.rank - 2 * c_second
          from longshore.horizon k
         cross join lateral (
               select r.rank from longshore.ready r
                where r.queue = k.queue and r.type = k.type
                  and r.rank >= k.low and r.rank < k.high
                order by r.rank limit 1) f
         where k.queue = p_queue and h.queue = k.queue and h.type = k.type
           and h.high = k.high and f.rank > k.low + 2 * c_second;
        v_lanes := array(
            select unnest(p_types)
            except select h.type from longshore.horizon h where h.queue = p_queue);
        perform longshore.note_horizon(
            p_queue, longshore.long_lanes(p_queue, v_lanes), p_now, v_until);
        return;
    end if;
    v_known := array(
        select distinct h.type from longshore.horizon h where h.queue = p_queue
         limit c_known);
    perform longshore.forget_horizon(p_queue);
    v_lanes := array(
        select unnest(longshore.lanes(p_queue, null))
         union select unnest(v_known)
         union select '');
    v_lanes := v_lanes || longshore.long_lanes(p_queue, array(
        select unnest(p_types) except select unnest(v_lanes)));
    perform longshore.note_horizon(
        p_queue, v_lanes, p_now, v_moment + greatest(interval '5 seconds', 20 * p_took));
end
$$;
