-- The audit log: what people ordered, and what became of dead jobs.

-- What somebody ordered, until it is chained: written in the commit that carries it out.
create table longshore.deed (
    number  bigint generated always as identity primary key,
    at      bigint not null,
    actor   text   not null,
    tenant  text   not null,
    action  text   not null,
    subject text   not null,
    facts   text   not null
);

-- The chain: core.audit says what a hash covers.
create table longshore.audit (
    number  bigint primary key,
    at      bigint not null,
    kind    text   not null,
    tenant  text   not null,
    actor   text   not null,
    action  text   not null,
    subject text   not null,
    body    bytea  not null,
    hash    bytea  not null
);
alter table longshore.audit alter column body set storage external;
create index audit_action on longshore.audit (number) where kind = 'action';
create index audit_transitions on longshore.audit (number) where kind = 'transitions';

-- Where the chain begins and ends; no row before its first entry. Whoever appends holds it.
create table longshore.audit_standing (
    one         boolean primary key default true check (one),
    anchor      bigint not null default 0,
    anchor_hash bytea  not null default decode(repeat('00', 32), 'hex'),
    head        bigint not null default 0,
    head_hash   bytea  not null default decode(repeat('00', 32), 'hex')
);
