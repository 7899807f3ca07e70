-- longshore: works-with 0007
-- Tenants, the digests of their API keys, and the buckets that processes share.

create table longshore.tenant (
    name       text collate "C" primary key,
    definition text   not null,
    created_at bigint not null
);

-- No tenant: a key of an operator. The scopes are words with spaces between them.
create table longshore.key (
    id             text collate "C" primary key,
    digest         bytea  not null,
    tenant         text collate "C",
    scopes         text   not null,
    label          text   not null,
    created_at     bigint not null,
    expires_at     bigint,
    revoked_at     bigint,
    last_used_at   bigint,
    previous       bytea,
    previous_until bigint
);

-- `empty_at` is in nanoseconds: core.bucket says what it means. A bucket that is full is like
-- one that is not there.
create table longshore.bucket (
    name     text collate "C" primary key,
    empty_at bigint not null default 0,
    full_at  bigint not null default 0
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- What is stored of a bucket, which nobody else touches until the transaction ends. The clock
-- is read behind the wait for it: time that passed meanwhile has filled it.
create function longshore.bucket_hold(p_name text, p_now bigint, out empty_at bigint,
                                      out now bigint) language plpgsql as $$
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
