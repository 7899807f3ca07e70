-- longshore: works-with 0008
-- Webhook endpoints. Their secrets stand there as they are: a digest could not sign.

create table longshore_webhook (
    id         text    primary key,
    tenant     text    not null,
    created_at integer not null,
    definition text    not null
) strict, without rowid;

create index longshore_webhook_tenant on longshore_webhook (tenant);
