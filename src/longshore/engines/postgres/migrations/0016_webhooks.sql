-- longshore: works-with 0015
-- Webhook endpoints. Their secrets stand there as they are: a digest could not sign.

create table longshore.webhook (
    id         text collate "C" primary key,
    tenant     text collate "C" not null,
    created_at bigint not null,
    definition text   not null
);
create index webhook_tenant on longshore.webhook (tenant);
