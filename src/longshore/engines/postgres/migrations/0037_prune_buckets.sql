-- Pruning forgets buckets that are full.
-- longshore: works-with 0021

-- A bucket that is full is like one that is not there. Those that someone borrows from just now
-- are left to the next call. Returns how many there were.
create function longshore.prune_buckets(p_now bigint, p_limit integer) returns integer
language plpgsql
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
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
