-- How deep queues are that must not get too deep, also for who submits in a transaction of theirs.

-- Where no more than so many jobs may wait, how many do: of a queue, with no tenant; of its
-- tenants; and with an empty tenant of any that has none.
create function longshore.depths()
returns table (queue text, tenant text, most bigint, jobs bigint) language sql stable as $$
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
     group by f.queue, f.settings, w.tenant
$$;

-- The same for a caller's connection, as longshore.submit_json: null if this is not the `store`
-- that the caller means. With `id`, whether there is such a job, and nothing is counted.
create function longshore.depths_json(p_call text) returns text language sql stable as $$
    select jsonb_build_object(
               'depths', case when c.call ->> 'id' is null then coalesce((
                   select jsonb_agg(jsonb_build_array(d.queue, d.tenant, d.most, d.jobs))
                     from longshore.depths() d), '[]') else '[]' end,
               'is_known', exists (
                   select from longshore.locator l where l.id = (c.call ->> 'id')::uuid))
      from (select p_call::jsonb) as c (call)
     where longshore.store() = c.call ->> 'store'
$$;
