-- longshore: works-with 0021
-- Beside a forgotten transaction, jobs are found though their queue was empty a moment ago.

-- Jobs that are claimed leave the front of the index by rank. While an old snapshot is open
-- their entries stay there, and every claim would pass over all of them: 30 ms for a hundred
-- thousand. So a claim that took long notes, for every type and priority of its queue, where the
-- first job is, and claims begin there. What comes back with an older rank, such as a retry, is
-- found when the notes are old: after five seconds, or twenty times as long as it took. So is a
-- job of a type that is not noted: after one second, for who serves many types. Types that were
-- noted before are noted again, though there may be nothing of them just now.
create or replace function longshore.look_ahead(
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
    c_few    constant integer := 8;
    v_kept   boolean;
    v_known  text[] collate "C";
    v_lanes  text[] collate "C";
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
    v_known := array(
        select distinct h.type from longshore.horizon h where h.queue = p_queue
         limit 2 * c_few);
    delete from longshore.horizon h where h.queue = p_queue or h.all_at <= v_moment;
    v_lanes := array(
        select unnest(longshore.lanes(p_queue, null))
         union select unnest(v_known)
         union select unnest(p_types) where cardinality(p_types) <= c_few
         union select '');
    if cardinality(v_lanes) = 1 and cardinality(p_types) > c_few then
        -- Nothing is there, and nobody knows of what there will be something.
        return;
    end if;
    insert into longshore.horizon
    select p_queue, t.type,
           greatest(b.band * c_band,
                    coalesce(f.rank, b.band * c_band + v_since) - 2 * c_second),
           (b.band + 1) * c_band,
           v_moment + greatest(
               case when p_types <@ v_lanes then interval '5 seconds'
                    else interval '1 second' end,
               20 * p_took)
      from unnest(v_lanes) as t (type)
     cross join generate_series(2, 19) as b (band)
      left join lateral (
           select r.rank from longshore.ready r
            where r.queue = p_queue and r.type = t.type
              and r.rank >= b.band * c_band and r.rank < (b.band + 1) * c_band
            order by r.rank limit 1) f on true;
end
$$;
