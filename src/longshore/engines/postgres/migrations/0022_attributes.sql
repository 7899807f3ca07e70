-- What jobs have of their own, for whoever tells of jobs that became due or were forgotten.
-- longshore: works-with 0021

-- The same as longshore.promote, with what the jobs of each span's segment have of their own, by
-- ordinal: one job of the span leads to its segment.
create function longshore.promote_whole(p_now bigint, p_limit integer)
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
                select l.segment from longshore.locator l
                 where l.id = encode(substring(p.ids for 16), 'hex')::uuid))
      from longshore.promote(p_now, p_limit) p;
end
$$;

-- The same as longshore.expire_dead, with that.
create function longshore.expire_dead_whole(p_before bigint, p_limit integer, p_most bigint)
returns table (
    segment bigint, lo smallint, hi smallint, size smallint, mask bytea, reason text,
    queue text, type text, tenant text, ids bytea, payloads bytea, bounds integer[],
    types text[], tenants text[], attributes text
) language plpgsql
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
    return query
    select e.segment, e.lo, e.hi, e.size, e.mask, e.reason, e.queue, e.type, e.tenant, e.ids,
           e.payloads, e.bounds, e.types, e.tenants,
           (select s.attributes::text from longshore.segment s where s.segment = e.segment)
      from longshore.expire_dead(p_before, p_limit, p_most) e;
end
$$;
