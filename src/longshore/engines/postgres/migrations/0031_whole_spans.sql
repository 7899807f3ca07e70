-- Jobs that become due are told of with all they have, whoever of their segment is gone.
-- longshore: works-with 0021

-- The same as longshore.promote, with what the jobs of each span's segment have of their own, by
-- ordinal: one job of the span leads to its segment. That is not the one at `lo`, if it has left
-- the span: it may have been forgotten, and its id used again.
create or replace function longshore.promote_whole(p_now bigint, p_limit integer)
returns table (
    queue text, type text, tenant text, lo smallint, hi smallint, size smallint, mask bytea,
    ids bytea, types text[], tenants text[], attributes text
) language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
    return query
    select p.queue, p.type, p.tenant, p.lo, p.hi, p.size, p.mask, p.ids, p.types, p.tenants,
           (select s.attributes::text from longshore.segment s where s.segment = (
                select l.segment from longshore.locator l where l.id = (
                    select encode(substring(p.ids from (o.ordinal - p.lo) * 16 + 1 for 16),
                                  'hex')::uuid
                      from generate_series(p.lo::integer, p.hi - 1) as o (ordinal)
                     where longshore.has(p.mask, o.ordinal) limit 1)))
      from longshore.promote(p_now, p_limit) p;
end
$$;
