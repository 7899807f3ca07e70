-- The audit log. Code that leaves no record of what it is ordered has to leave.

-- What somebody ordered, until it is chained: written in the commit that carries it out.
create table longshore_deed (
    number  integer primary key autoincrement,
    at      integer not null,
    actor   text    not null,
    tenant  text    not null,
    action  text    not null,
    subject text    not null,
    facts   text    not null
) strict;

-- The chain: core.audit says what a hash covers.
create table longshore_audit (
    number  integer primary key,
    at      integer not null,
    kind    text    not null,
    tenant  text    not null,
    actor   text    not null,
    action  text    not null,
    subject text    not null,
    body    blob    not null,
    hash    blob    not null
) strict;

create index longshore_audit_kind on longshore_audit (kind, number);

-- Where the chain begins and ends; no row before its first entry.
create table longshore_audit_standing (
    one         integer primary key check (one = 1),
    anchor      integer not null,
    anchor_hash blob    not null,
    head        integer not null,
    head_hash   blob    not null
) strict;
