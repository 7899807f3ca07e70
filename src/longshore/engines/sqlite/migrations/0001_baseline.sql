-- The schema of a new file on SQLite. Times are microseconds since 1970. "core.x" is the Python
-- module longshore.core.x, which has the rule that a statement applies.

-- The store

-- Numbers that only grow: how many workers vanished, and how many jobs of a queue were pruned.
create table longshore_total (
    name   text    primary key,
    number integer not null
) strict, without rowid;

-- Event positions that were left out, so that no number is used twice when an older copy of the
-- file is put back: those behind `last_position`, up to and with `first_position`.
create table longshore_position_gap (
    last_position  integer primary key,
    first_position integer not null
) strict;

-- Records: what people configure, by kind and name, and what is so of the whole store

-- `tenant` is empty for what is nobody's. The body is JSON, which no statement looks into: for
-- the kinds that claims obey, the engine writes tables of their own in the same commit (hooks.py).
-- `due`, `last_due` and `last_job` are a schedule's, and move without a new version.
create table longshore_record (
    kind       text    not null,
    name       text    not null,
    tenant     text    not null,
    version    integer not null,
    body       text    not null,
    created_at integer not null,
    changed_at integer not null,
    due        integer,
    last_due   integer,
    last_job   blob,
    primary key (kind, name, tenant)
) strict, without rowid;

-- Pages in each order, of all tenants and of one; the first of these also counts and deletes
-- what a tenant has.
create index longshore_record_tenant on longshore_record (tenant, kind, name);
create index longshore_record_age on longshore_record (kind, created_at, name, tenant);
create index longshore_record_tenant_age
    on longshore_record (tenant, kind, created_at, name);

-- What the scheduler looks at next.
create index longshore_record_due on longshore_record (kind, due, tenant, name)
    where due is not null;

-- The tenant whose jobs are those that name none: it is always there.
insert into longshore_record (kind, name, tenant, version, body, created_at, changed_at)
values ('tenant', 'default', '', 1, '{"name":"default"}', 0, 0);

-- Jobs: what was submitted, and for each state a table of the jobs that are in it

-- What was submitted, which never changes: where a job is, a row in the table of its state says.
-- A single row that is written at submit, claim and settle is six times as wide as what changes.
-- No check constraints: two of them cost 5 µs a job, a quarter of its whole way. What they
-- would say (finished_at is set exactly in the finished states) the contract suite tests.
-- A number is never used twice, hence autoincrement: it is the handle of claims, and a late
-- settlement must not find another job under it. The last failure is told by longshore_attempt.
create table longshore_job (
    seq             integer primary key autoincrement,
    id              blob    not null unique,
    tenant          text    not null,
    queue           text    not null,
    type            text    not null,
    priority        integer not null,
    rank            integer not null,
    created_at      integer not null,
    due             integer,
    max_attempts    integer not null,
    timeout         integer,
    unique_key      text,
    unique_until    text,
    idempotency_key text,
    ordering_key    text,
    trace           text,
    tags            text,
    payload         blob    not null
) strict;

-- Jobs that a claim may take. Type stands before rank, so that a claim skips what it may not take,
-- and takes from the front of each type. In a fair queue the lane of a job is its tenant;
-- elsewhere it is mostly empty, and means nothing.
create table longshore_ready (
    queue      text    not null,
    type       text    not null,
    rank       integer not null,
    seq        integer not null,
    size       integer not null,
    run_at     integer not null,
    delivery   integer not null,
    attempt    integer not null,
    failures   integer not null,
    crashes    integer not null,
    lapses     integer not null,
    started_at integer,
    lane       text    not null default '',
    primary key (queue, type, rank, seq)
) strict, without rowid;

-- Jobs without a lane cost nothing: they are not in it.
create index longshore_ready_lane on longshore_ready (queue, lane, type, rank, seq)
    where lane <> '';

-- Jobs that are due later.
create table longshore_scheduled (
    seq        integer primary key,
    queue      text    not null,
    run_at     integer not null,
    delivery   integer not null,
    attempt    integer not null,
    failures   integer not null,
    crashes    integer not null,
    lapses     integer not null,
    started_at integer
) strict;

-- The queue is there for counts, which then need not look at the jobs.
create index longshore_scheduled_due on longshore_scheduled (run_at, seq, queue);

-- Running jobs: held by a session that has not ended. `place` is where a job of a fair queue
-- stands in its claim, which its rank does not tell.
create table longshore_held (
    token         integer not null,
    seq           integer not null,
    claimed_by    integer not null,
    run_at        integer not null,
    delivery      integer not null,
    attempt       integer not null,
    failures      integer not null,
    crashes       integer not null,
    lapses        integer not null,
    started_at    integer,
    cancel_reason text,
    place         integer,
    primary key (token, seq)
) strict, without rowid;

create index longshore_held_unwanted on longshore_held (token) where cancel_reason is not null;

-- Jobs that succeeded, died or were cancelled.
create table longshore_finished (
    seq         integer primary key,
    state       text    not null,
    finished_at integer not null,
    run_at      integer not null,
    delivery    integer not null,
    attempt     integer not null,
    failures    integer not null,
    crashes     integer not null,
    lapses      integer not null,
    token       integer not null,
    started_at  integer,
    reason      text,
    result      blob
) strict;

create index longshore_finished_age on longshore_finished (state, finished_at);

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

-- The last report of a job, which counts as long as the job is in that delivery. In a table of
-- its own: jobs that never report are claimed and settled as if there were none.
create table longshore_progress (
    seq      integer primary key,
    delivery integer not null,
    fraction real    not null,
    message  text,
    at       integer not null
) strict;

-- How many finished jobs a queue keeps, which may be millions: each transaction adds what it
-- changed. Jobs that still have to run are counted from their indexes, where they are.
create table longshore_count (
    tenant text    not null,
    queue  text    not null,
    state  text    not null,
    jobs   integer not null,
    primary key (tenant, queue, state)
) strict, without rowid;

-- Sessions

-- A worker's lease, for all the jobs it holds. `owner` is whom it was opened for: a service that
-- speaks for others may speak again only for them.
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
    closed_at  integer,
    owner      text    not null default ''
) strict;

create index longshore_session_live on longshore_session (expires_at) where closed_at is null;
create index longshore_session_ended on longshore_session (closed_at)
    where closed_at is not null;

-- Keys that keep a job from being stored twice

-- Which job was accepted under an idempotency key, and what was asked for with it. The times are
-- those of the job as it was accepted: it may be gone long before its key.
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

-- Ordering keys. A line is the jobs of a tenant that share a queue and an ordering key: only some
-- of them, mostly one, are let in at a time, and the others are parked in their order.
-- Decision 0033 has the reasons.

-- A line that has jobs, or that dead ones block. `inside` counts those that are ready, run or
-- wait to be tried again; `tail` is the place of the one that was parked last; `last` is the job
-- that was let in last, and `dead` those that block it, a JSON array; both in hex; `opens_at` is
-- when the next one is let in, where nothing but the rate of its key keeps it.
create table longshore_line (
    queue    text    not null,
    tenant   text    not null,
    key      text    not null,
    inside   integer not null,
    tail     integer not null default 0,
    last     text,
    dead     text    not null default '[]',
    opens_at integer,
    primary key (queue, tenant, key)
) strict, without rowid;

create index longshore_line_blocked on longshore_line (queue, tenant, key) where dead <> '[]';
create index longshore_line_opens on longshore_line (opens_at, queue, tenant, key)
    where opens_at is not null;

-- Jobs that are ready, but behind others of their line. Claims do not look here. None of them has
-- failed.
create table longshore_parked (
    queue    text    not null,
    tenant   text    not null,
    key      text    not null,
    place    integer not null,
    seq      integer not null unique,
    run_at   integer not null,
    delivery integer not null,
    attempt  integer not null,
    primary key (queue, tenant, key, place)
) strict, without rowid;

-- Queues: pauses, limits, fair turns, breakers and token buckets

-- Queues and types of which nothing is claimed. An empty string stands for any.
create table longshore_pause (
    queue text not null,
    type  text not null,
    primary key (queue, type)
) strict, without rowid;

-- What holds for a queue, from both layers of its settings: the one thing that a claim reads.
-- `running` is kept while there is a `max_running`; `empty_at` is the queue's bucket, in
-- nanoseconds (core.token_bucket); `vtime` is how far a fair queue is (core.fair_queueing).
create table longshore_flow (
    queue    text    primary key,
    settings text    not null,
    running  integer not null default 0,
    empty_at integer,
    vtime    integer not null default 0
) strict, without rowid;

-- The tenants of a fair queue that are ahead of it, and how far each is: core.fair_queueing says
-- what it means.
create table longshore_fair (
    queue  text    not null,
    tenant text    not null,
    vtime  integer not null,
    primary key (queue, tenant)
) strict, without rowid;

-- Shares of fair queues, as a claim reads them. A tenant that is not here has the weight 1.
create table longshore_weight (
    tenant text    primary key,
    weight integer not null
) strict, without rowid;

-- The circuit breakers of types whose jobs may fail too often: what holds, from both layers of
-- the settings, and how the breaker stands (core.circuit_breaker), both as JSON. A claim reads
-- all of them; there are none where nothing is set.
create table longshore_breaker (
    type     text primary key,
    settings text not null,
    standing text not null default '{}'
) strict, without rowid;

-- Token buckets that processes share. `empty_at` is in nanoseconds: core.token_bucket says what it
-- means. A bucket that is full is like one that is not there.
create table longshore_bucket (
    name     text    primary key,
    empty_at integer not null,
    full_at  integer not null
) strict, without rowid;

create index longshore_bucket_full on longshore_bucket (full_at);

-- The outbox

-- Batches of events, stored with what they tell of.
-- A position is never used twice, hence autoincrement. One writer at a time: the order of
-- positions is the order of commits.
create table longshore_outbox (
    position integer primary key autoincrement,
    at       integer not null,
    body     blob    not null
) strict;

create index longshore_outbox_age on longshore_outbox (at);

-- Who reads the outbox, and how far each has come. A consumer's cursor has one holder at a time:
-- `token` grows with each. `gone_at` is set when nobody has read for it in so long that nothing is
-- kept for it any more.
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

-- The audit log

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

-- Schedules

-- The due times that fired, and the job of each. A due time fires once: the primary key says so.
create table longshore_firing (
    tenant text    not null,
    name   text    not null,
    due    integer not null,
    id     blob,
    primary key (tenant, name, due)
) strict, without rowid;

create index longshore_firing_age on longshore_firing (due);

-- Views

-- Every job, one row each, for people and for the engine.
create view longshore_jobs as
select j.seq, j.id, j.tenant, j.queue, j.type,
       case when f.seq is not null then f.state
            when h.seq is not null then 'running'
            when r.seq is not null or p.seq is not null then 'ready'
            else 'scheduled' end as state,
       j.priority, j.rank,
       coalesce(r.run_at, s.run_at, h.run_at, f.run_at, p.run_at) as run_at,
       j.created_at, j.max_attempts, j.timeout,
       coalesce(r.delivery, s.delivery, h.delivery, f.delivery, p.delivery) as delivery,
       coalesce(r.attempt, s.attempt, h.attempt, f.attempt, p.attempt) as attempt,
       coalesce(r.failures, s.failures, h.failures, f.failures, 0) as failures,
       coalesce(r.crashes, s.crashes, h.crashes, f.crashes, 0) as crashes,
       coalesce(r.lapses, s.lapses, h.lapses, f.lapses, 0) as lapses,
       coalesce(h.token, f.token) as token,
       coalesce(r.started_at, s.started_at, h.started_at, f.started_at) as started_at,
       f.finished_at,
       h.cancel_reason is not null as cancel_requested,
       coalesce(f.reason, h.cancel_reason) as reason,
       case when p.seq is not null then 'line' end as parked,
       j.unique_key, j.unique_until, j.idempotency_key, j.ordering_key, j.trace, j.tags,
       (select a.failure from longshore_attempt a
         where a.seq = j.seq and a.failure is not null order by a.delivery desc limit 1
       ) as failure,
       f.result, j.payload
  from longshore_job j
  left join longshore_ready r on r.queue = j.queue and r.type = j.type and r.rank = j.rank
                             and r.seq = j.seq
  left join longshore_scheduled s on s.seq = j.seq
  left join longshore_held h on h.seq = j.seq and h.token in (
       select token from longshore_session where closed_at is null)
  left join longshore_finished f on f.seq = j.seq
  left join longshore_parked p on p.seq = j.seq;
