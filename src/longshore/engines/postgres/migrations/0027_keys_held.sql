-- Which keys of new jobs someone holds in an open transaction.
-- longshore: works-with 0021

-- By their places from 1. Who holds a key can only be told by who waits for it: each is tried
-- for a millisecond, and taken back. A kind is once, unique or line.
create function longshore.keys_held(p_tenants text[], p_kinds text[], p_keys text[], p_queues text[])
returns setof integer language plpgsql
    set lock_timeout = '1ms' set enable_seqscan = off
as $$
begin
    for v_place in 1 .. cardinality(p_keys) loop
        begin
            case p_kinds[v_place]
            when 'once' then
                insert into longshore.idempotency (tenant, key, fingerprint, id, created_at, run_at)
                values (p_tenants[v_place], p_keys[v_place], '', gen_random_uuid(), 0, 0)
                on conflict do nothing;
            when 'unique' then
                insert into longshore.uniqueness (tenant, key, id)
                values (p_tenants[v_place], p_keys[v_place], gen_random_uuid())
                on conflict do nothing;
                perform from longshore.uniqueness u
                  where u.tenant = p_tenants[v_place] and u.key = p_keys[v_place] for update;
            else
                insert into longshore.line (queue, tenant, key, inside, tail)
                values (p_queues[v_place], p_tenants[v_place], p_keys[v_place], 0, 0)
                on conflict do nothing;
                perform from longshore.line l
                  where l.queue = p_queues[v_place] and l.tenant = p_tenants[v_place]
                    and l.key = p_keys[v_place] for update;
            end case;
            raise sqlstate 'LS003';
        exception
            when lock_not_available then return next v_place;
            when sqlstate 'LS003' then null;
        end;
    end loop;
end
$$;
