-- A full queue answers again, in a caller's transaction too, what it has answered before.

-- How deep queues are, for a caller's connection, as longshore.submit_json: null if this is not
-- the `store` that the caller means. With `ids` and the rest that longshore.recall takes, which
-- of these jobs stand already, by their places from 1, and nothing is counted.
create or replace function longshore.depths_json(p_call text) returns text language sql stable
as $$
    select jsonb_build_object(
               'depths', case when c.call -> 'ids' is null then coalesce((
                   select jsonb_agg(jsonb_build_array(d.queue, d.tenant, d.most, d.jobs))
                     from longshore.depths() d), '[]') else '[]' end,
               'known', case when c.call -> 'ids' is null then '[]' else coalesce((
                   select jsonb_agg(r.place)
                     from longshore.recall(
                              array(select jsonb_array_elements_text(c.call -> 'ids')::uuid),
                              array(select jsonb_array_elements_text(c.call -> 'tenants')),
                              array(select jsonb_array_elements_text(c.call -> 'keys')),
                              array(select jsonb_array_elements_text(
                                               c.call -> 'fingerprints')::bytea)) r
                    where r.verdict is not null), '[]') end)
      from (select p_call::jsonb) as c (call)
     where longshore.store() = c.call ->> 'store'
$$;
