-- Jobs, sessions, keys, pauses, schedules and the outbox.
-- Times are microseconds since the epoch.

-- No check constraints: two of them cost 5 µs a job, a quarter of its whole way. What they
-- would say (finished_at is set exactly in the finished states) the contract suite tests.
-- A number is never used twice, hence autoincrement: it is the handle of claims, and a late
-- settlement must not find another job under it.
create table longshore_job (
    seq              integer primary key autoincrement,
    id               blob    not null unique,
    tenant           text    not null,
    queue            text    not null,
    type             text    not null,
    state            text    not null,
    priority         integer not null,
    rank             integer not null,
    parked           text,
    run_at           integer not null,
    created_at       integer not null,
    max_attempts     integer not null,
    timeout          integer,
    delivery         integer not null default 0,
    attempt          integer not null default 0,
    failures         integer not null default 0,
    crashes          integer not null default 0,
    lapses           integer not null default 0,
    token            integer not null default 0,
    claimed_by       integer not null default 0,
    started_at       integer,
    finished_at      integer,
    cancel_requested integer not null default 0,
    unique_key       text,
    unique_until     text,
    idempotency_key  text,
    ordering_key     text,
    trace            text,
    tags             text,
    reason           text,
    failure          text,
    result           blob,
    payload          blob    not null
) strict;

-- What may be claimed. Type stands before rank, so that a claim skips what it may not take.
create index longshore_job_ready on longshore_job (queue, type, rank, seq)
    where state = 'ready' and parked is null;
create index longshore_job_due on longshore_job (run_at, seq) where state = 'scheduled';
create index longshore_job_held on longshore_job (token, seq) where state = 'running';
create index longshore_job_unwanted on longshore_job (token)
    where state = 'running' and cancel_requested = 1;
create index longshore_job_finished on longshore_job (state, finished_at)
    where finished_at is not null;

-- Deliveries that ended in anything but success; a success is told by its job row.
create table longshore_attempt (
    seq         integer not null,
    delivery    integer not null,
    attempt     integer not null,
    outcome     text    not null,
    worker      text,
    started_at  integer,
    finished_at integer,
    failure     text,
    primary key (seq, delivery)
) strict, without rowid;

-- A token is never used twice, hence autoincrement.
create table longshore_session (
    token      integer primary key autoincrement,
    worker     text    not null,
    queues     text    not null,
    types      text    not null,
    lease      integer not null,
    opened_at  integer not null,
    renewed_at integer not null,
    expires_at integer not null,
    exchange   integer not null default 0,
    refused    text    not null default '[]',
    is_quiet   integer not null default 0,
    closed_at  integer
) strict;

create index longshore_session_live on longshore_session (expires_at) where closed_at is null;

-- The times are those of the job as it was accepted: it may be gone long before its key.
create table longshore_idempotency (
    tenant      text    not null,
    key         text    not null,
    fingerprint blob    not null,
    id          blob    not null,
    created_at  integer not null,
    run_at      integer not null,
    primary key (tenant, key)
) strict, without rowid;

create index longshore_idempotency_age on longshore_idempotency (created_at);

-- Who holds a unique key. A finished holder is replaced by the next submit, so settling does
-- no work for it.
create table longshore_unique (
    tenant text not null,
    key    text not null,
    id     blob not null,
    primary key (tenant, key)
) strict, without rowid;

-- An empty string stands for any.
create table longshore_pause (
    queue text not null,
    type  text not null,
    primary key (queue, type)
) strict, without rowid;

create table longshore_schedule (
    tenant     text    not null,
    name       text    not null,
    definition text    not null,
    is_paused  integer not null,
    next_due   integer,
    last_due   integer,
    last_job   blob,
    primary key (tenant, name)
) strict, without rowid;

create index longshore_schedule_due on longshore_schedule (next_due)
    where next_due is not null and is_paused = 0;

-- A due time fires once: the primary key says so.
create table longshore_firing (
    tenant text    not null,
    name   text    not null,
    due    integer not null,
    id     blob,
    primary key (tenant, name, due)
) strict, without rowid;

-- A position is never used twice, hence autoincrement. One writer at a time: the order of
-- positions is the order of commits.
create table longshore_outbox (
    position     integer primary key autoincrement,
    at           integer not null,
    body         blob    not null,
    published_at integer
) strict;

create index longshore_outbox_unpublished on longshore_outbox (position)
    where published_at is null;
create index longshore_outbox_age on longshore_outbox (at);

-- Single facts about the store, such as whether a relay ever read its outbox.
create table longshore_fact (
    name  text primary key,
    value text not null
) strict, without rowid;
