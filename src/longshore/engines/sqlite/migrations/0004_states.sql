-- A job moves between tables, one for each state, and what was submitted never changes.
-- The row that was written at submit, claim and settle was six times as wide as what changed.

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

insert into longshore_ready
    (queue, type, rank, seq, size, run_at, delivery, attempt, failures, crashes, lapses,
     started_at)
select queue, type, rank, seq, length(payload), run_at, delivery, attempt, failures, crashes,
       lapses, started_at
  from longshore_job where state = 'ready';

insert into longshore_scheduled
    (seq, queue, run_at, delivery, attempt, failures, crashes, lapses, started_at)
select seq, queue, run_at, delivery, attempt, failures, crashes, lapses, started_at
  from longshore_job where state = 'scheduled';

insert into longshore_held
    (token, seq, claimed_by, run_at, delivery, attempt, failures, crashes, lapses, started_at,
     cancel_reason)
select token, seq, claimed_by, run_at, delivery, attempt, failures, crashes, lapses, started_at,
       case when cancel_requested then coalesce(reason, '') end
  from longshore_job where state = 'running';

insert into longshore_finished
    (seq, state, finished_at, run_at, delivery, attempt, failures, crashes, lapses, token,
     started_at, reason, result)
select seq, state, finished_at, run_at, delivery, attempt, failures, crashes, lapses, token,
       started_at, reason, result
  from longshore_job where finished_at is not null;

-- What was submitted. Its last failure is told by longshore_attempt.
create table longshore_job_next (
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

insert into longshore_job_next
    (seq, id, tenant, queue, type, priority, rank, created_at, due, max_attempts, timeout,
     unique_key, unique_until, idempotency_key, ordering_key, trace, tags, payload)
select seq, id, tenant, queue, type, priority, rank, created_at,
       case when state = 'scheduled' and delivery = 0 then run_at end, max_attempts, timeout,
       unique_key, unique_until, idempotency_key, ordering_key, trace, tags, payload
  from longshore_job order by seq;

-- The numbers of jobs that are gone are not used again.
delete from sqlite_sequence where name = 'longshore_job_next';
insert into sqlite_sequence (name, seq)
select 'longshore_job_next', seq from sqlite_sequence where name = 'longshore_job';

drop table longshore_job;
alter table longshore_job_next rename to longshore_job;

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
