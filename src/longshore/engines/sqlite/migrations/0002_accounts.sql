-- longshore: works-with 0001
-- Tenants, the digests of their API keys, and the buckets that processes share.

create table longshore_tenant (
    name       text    primary key,
    definition text    not null,
    created_at integer not null
) strict, without rowid;

-- No tenant: a key of an operator. The scopes are words with spaces between them.
create table longshore_key (
    id             text    primary key,
    digest         blob    not null,
    tenant         text,
    scopes         text    not null,
    label          text    not null,
    created_at     integer not null,
    expires_at     integer,
    revoked_at     integer,
    last_used_at   integer,
    previous       blob,
    previous_until integer
) strict, without rowid;

-- `empty_at` is in nanoseconds: core.bucket says what it means. A bucket that is full is like
-- one that is not there.
create table longshore_bucket (
    name     text    primary key,
    empty_at integer not null,
    full_at  integer not null
) strict, without rowid;

create index longshore_bucket_full on longshore_bucket (full_at);
