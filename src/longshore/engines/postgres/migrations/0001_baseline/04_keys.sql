-- Keys that keep a job from being stored twice.

-- Which job was accepted under an idempotency key, and what was asked for with it.
create table longshore.idempotency (
    tenant      text collate "C" not null,
    key         text collate "C" not null,
    fingerprint bytea  not null,
    id          uuid   not null,
    created_at  bigint not null,
    run_at      bigint not null,
    primary key (tenant, key)
);
alter table longshore.idempotency alter column fingerprint set statistics 0;
comment on column longshore.idempotency.created_at is 'the arrival of the job';
comment on column longshore.idempotency.run_at is
    'when the job was due as it was accepted: it may be gone long before its key';
create index idempotency_age on longshore.idempotency (created_at);

-- Who holds a unique key. A finished holder is replaced by the next submit, so settling does no
-- work for it.
create table longshore.uniqueness (
    tenant text collate "C" not null,
    key    text collate "C" not null,
    id     uuid not null,
    primary key (tenant, key)
);
create index uniqueness_id on longshore.uniqueness (id);

-- Which of these keys of new jobs someone holds in an open transaction, by their places from 1.
-- That can only be told by waiting for it: each key is tried for a millisecond, and taken back.
-- A kind is once (idempotency), unique or line (ordering key).
create function longshore.keys_held(p_tenants text[], p_kinds text[], p_keys text[], p_queues text[])
returns setof integer language plpgsql
    set lock_timeout = '1ms' set enable_seqscan = off
    set search_path = pg_catalog, pg_temp
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
