-- Jobs, sessions, keys, pauses, schedules and the outbox.
-- Times are microseconds since the epoch.

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

-- Ready. Type stands before rank, so that a claim skips what it may not take, and takes from
-- the front of each type.
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
    primary key (queue, type, rank, seq)
) strict, without rowid;

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

-- Running: held by a session that has not ended.
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
    primary key (token, seq)
) strict, without rowid;

create index longshore_held_unwanted on longshore_held (token) where cancel_reason is not null;

-- Succeeded, dead or cancelled.
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
create index longshore_session_ended on longshore_session (closed_at)
    where closed_at is not null;

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

create index longshore_firing_age on longshore_firing (due);

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
create index longshore_outbox_shipped on longshore_outbox (at) where published_at is not null;

-- Single facts about the store, such as whether a relay ever read its outbox.
create table longshore_fact (
    name  text primary key,
    value text not null
) strict, without rowid;

-- One job, one row.
create view longshore_jobs as
select j.seq, j.id, j.tenant, j.queue, j.type,
       case when f.seq is not null then f.state
            when h.seq is not null then 'running'
            when r.seq is not null then 'ready'
            else 'scheduled' end as state,
       j.priority, j.rank,
       coalesce(r.run_at, s.run_at, h.run_at, f.run_at) as run_at,
       j.created_at, j.max_attempts, j.timeout,
       coalesce(r.delivery, s.delivery, h.delivery, f.delivery) as delivery,
       coalesce(r.attempt, s.attempt, h.attempt, f.attempt) as attempt,
       coalesce(r.failures, s.failures, h.failures, f.failures) as failures,
       coalesce(r.crashes, s.crashes, h.crashes, f.crashes) as crashes,
       coalesce(r.lapses, s.lapses, h.lapses, f.lapses) as lapses,
       coalesce(h.token, f.token) as token,
       coalesce(r.started_at, s.started_at, h.started_at, f.started_at) as started_at,
       f.finished_at,
       h.cancel_reason is not null as cancel_requested,
       coalesce(f.reason, h.cancel_reason) as reason,
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
  left join longshore_finished f on f.seq = j.seq;
