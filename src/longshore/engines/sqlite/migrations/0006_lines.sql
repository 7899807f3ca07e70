-- Lines: the jobs of a tenant that share a queue and an ordering key. Code that does not keep
-- their order has to leave.

-- A line that has jobs, or that dead ones block. `inside` counts those that are ready, run or
-- wait to be tried again; `tail` is the place of the one that was parked last; `last` is the job
-- that was let in last, and `dead` those that block it, a JSON array; both in hex.
create table longshore_line (
    queue  text    not null,
    tenant text    not null,
    key    text    not null,
    inside integer not null,
    tail   integer not null default 0,
    last   text,
    dead   text    not null default '[]',
    primary key (queue, tenant, key)
) strict, without rowid;

create index longshore_line_blocked on longshore_line (queue, tenant, key) where dead <> '[]';

-- Ready, but behind others of their line. Claims do not look here. None of them has failed.
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

-- Jobs from before there were lines count as let in, all of them: order begins with the next.
insert into longshore_line (queue, tenant, key, inside, last)
select j.queue, j.tenant, j.ordering_key, count(*), max(hex(j.id))
  from longshore_job j
 where j.ordering_key is not null
   and not exists (select 1 from longshore_finished f where f.seq = j.seq)
   and not exists (select 1 from longshore_scheduled s where s.seq = j.seq and s.delivery = 0)
 group by j.queue, j.tenant, j.ordering_key;

drop view longshore_jobs;

-- One job, one row.
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
