-- Accounts: tenants, API keys and webhook endpoints.

-- Tenants; the definition is JSON.
create table longshore.tenant (
    name       text collate "C" primary key,
    definition text   not null,
    created_at bigint not null
);

-- The digests of API keys. No tenant: a key of an operator. The scopes are words with spaces
-- between them. `previous` is the digest that a rotation replaced, good until `previous_until`.
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

-- Webhook endpoints. Their secrets stand there as they are: a digest could not sign. `door` is
-- JSON: who of the fleet is delivering to the endpoint, and whether it rests (core.door).
create table longshore.webhook (
    id         text collate "C" primary key,
    tenant     text collate "C" not null,
    created_at bigint not null,
    definition text   not null,
    door       text   not null default '{}'
);
create index webhook_tenant on longshore.webhook (tenant);
