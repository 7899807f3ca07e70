-- Who reads the outbox, how far each has come, and what they set aside. Code that prunes by other
-- marks has to leave.

-- A consumer's cursor has one holder at a time: `token` grows with each. `gone_at` is set when
-- nobody has read for it in so long that nothing is kept for it any more.
create table longshore_consumer (
    name         text    primary key,
    position     integer not null default 0,
    token        integer not null default 0,
    holder       text    not null default '',
    lease        integer not null default 0,
    leased_until integer not null default 0,
    seen_at      integer not null,
    gone_at      integer
) strict, without rowid;

create table longshore_quarantine (
    number   integer primary key autoincrement,
    consumer text    not null,
    event_id text    not null,
    name     text    not null,
    job_id   blob    not null,
    reason   text    not null,
    body     blob    not null,
    at       integer not null
) strict;

create index longshore_quarantine_age on longshore_quarantine (at);

-- What is shipped is told by cursors, and not row by row.
drop index longshore_outbox_unpublished;
drop index longshore_outbox_shipped;
alter table longshore_outbox drop column published_at;
