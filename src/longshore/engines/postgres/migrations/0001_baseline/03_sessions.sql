-- Sessions: who may run jobs, what each of them holds, and what it has told of that.

-- A worker's lease, for all the jobs it holds. `owner` is whom it was opened for: a service that
-- speaks for others may speak again only for them.
create table longshore.session (
    token      bigint  primary key,
    worker     text    not null,
    queues     text[]  not null,
    types      text[]  not null,
    lease      bigint  not null,
    opened_at  bigint  not null,
    renewed_at bigint  not null,
    expires_at bigint  not null,
    is_quiet   boolean not null default false,
    owner      text    not null default ''
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
alter table longshore.session
    alter column queues set statistics 0,
    alter column types set statistics 0;

-- The last exchange of each session. A row of its own for every number, and not an update:
-- while an old snapshot is open, what was updated ten thousand times is found the slower for it,
-- and the newest of many is found at once.
create table longshore.exchanged (
    token   bigint not null,
    number  bigint not null,
    refused text   not null,
    primary key (token, number)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- The sessions that found nothing to do and want to be told when there is something.
create table longshore.waiting (
    token bigint primary key
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Spans that sessions hold. A span leaves when its last job has ended; what ended before that is
-- in the session's journal.
create table longshore.claim (
    token    bigint   not null,
    number   bigint   not null,
    part     smallint not null,
    segment  bigint   not null,
    lo       smallint not null,
    hi       smallint not null,
    size     smallint not null,
    weight   integer  not null,
    mask     bytea,
    rank     bigint   not null,
    run_at   bigint   not null,
    delivery integer  not null,
    attempt  integer  not null,
    failures integer  not null,
    crashes  integer  not null,
    lapses   integer  not null,
    primary key (token, number, part)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
alter table longshore.claim alter column mask set statistics 0;
create index claim_segment on longshore.claim (segment);

-- What an exchange told of jobs whose span is still claimed: 0 started (then, at `at`),
-- 1 succeeded, 2 ended otherwise, 3 succeeded and was deleted since (in entries below 0). A
-- session may hold a job again before it let go of the span of an earlier delivery, so each
-- entry names the delivery. A row goes when the last of these spans has gone.
create table longshore.journal (
    token      bigint     not null,
    entry      bigint     not null,
    at         bigint     not null,
    handles    bigint[]   not null,
    deliveries integer[]  not null,
    kinds      smallint[] not null,
    started    bigint[]   not null,
    finished   bigint[]   not null,
    primary key (token, entry)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
alter table longshore.journal
    alter column handles set storage external,
    alter column handles set statistics 0,
    alter column deliveries set statistics 0,
    alter column kinds set statistics 0,
    alter column started set storage external,
    alter column started set statistics 0,
    alter column finished set storage external,
    alter column finished set statistics 0;

-- The journals, a row for each job that an entry tells of.
create view longshore.told as
select j.token, t.handle >> 12 as segment, (t.handle & 4095)::integer as ordinal, t.delivery,
       t.kind, coalesce(t.started, j.at) as started_at, t.finished as finished_at
  from longshore.journal j
 cross join lateral unnest(j.handles, j.deliveries, j.kinds, j.started, j.finished)
       as t (handle, delivery, kind, started, finished);

-- Running jobs that someone asked to stop. A row means something while that delivery is held.
create table longshore.request (
    token    bigint  not null,
    handle   bigint  not null,
    delivery integer not null,
    reason   text    not null,
    primary key (token, handle, delivery)
);

-- How many jobs workers hold, by queue: running, of those buffered (claimed and not started), and
-- succeeded in a span that is still claimed. One seek per claim for its segment: segments are
-- many, claims are few.
create view longshore.held as
with line as materialized (
    select t.token, t.segment, t.ordinal, t.delivery, max(t.kind) as kind
      from longshore.told t group by t.token, t.segment, t.ordinal, t.delivery
), told as materialized (
    select c.token, c.number, c.part,
           count(*) filter (where t.kind = 0) as begun,
           count(*) filter (where t.kind = 1) as succeeded,
           count(*) filter (where t.kind >= 1) as ended
      from line t
      join longshore.claim c
        on c.token = t.token and c.segment = t.segment and c.delivery = t.delivery
       and t.ordinal >= c.lo and t.ordinal < c.hi and longshore.has(c.mask, t.ordinal)
     group by c.token, c.number, c.part
)
select s.queue, sum(c.size - coalesce(t.ended, 0))::bigint as running,
       sum(c.size - coalesce(t.ended + t.begun, 0))::bigint as buffered,
       coalesce(sum(t.succeeded), 0)::bigint as succeeded
  from longshore.claim c
 cross join lateral (
       select x.queue from longshore.segment x where x.segment = c.segment offset 0) s
  left join told t on t.token = c.token and t.number = c.number and t.part = c.part
 group by s.queue;

-- How many jobs of a queue a session holds, by its claims and its journal.
create function longshore.held_of(p_token bigint, p_queue text) returns integer
language sql stable
begin atomic
    select coalesce(sum(c.size - e.ended), 0)::integer
      from longshore.claim c
     cross join lateral (
           select x.queue from longshore.segment x where x.segment = c.segment offset 0) s
     cross join lateral (
           select count(distinct t.ordinal) as ended from longshore.told t
            where t.token = c.token and t.segment = c.segment and t.delivery = c.delivery
              and t.kind >= 1 and t.ordinal >= c.lo and t.ordinal < c.hi
              and longshore.has(c.mask, t.ordinal)) e
     where c.token = p_token and s.queue = p_queue;
end;

-- Whether claims may be made in this era: a session of which `waiting` tells from before it may
-- run jobs that nobody else knows to be claimed. Only a session that comes back leaves the list.
create function longshore.clear_up(p_now bigint) returns boolean language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from longshore.waiting w join longshore.session s using (token)
                where s.expires_at > p_now) then
        return false;
    end if;
    update longshore.era e set is_clear = true where not e.is_clear;
    return true;
end
$$;

-- What a live session has to know to go on in this era: its number, and that of the session's
-- last exchange. From now on claims need not wait for it. No row when the lease is over. The call
-- may be part of a transaction that lasts, so the era has to be begun in another one.
create function longshore.check_in(
    p_token bigint, p_now bigint, p_era bigint, out era bigint, out last bigint
) returns setof record language plpgsql
    set enable_seqscan = off
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform from longshore.session s
      where s.token = p_token and s.expires_at > longshore.clock(p_now) for no key update;
    if found then
        era := longshore.this_era();
        select max(e.number) into last from longshore.exchanged e where e.token = p_token;
        if era is distinct from p_era then
            delete from longshore.waiting w where w.token = p_token;
        end if;
        return next;
    end if;
end
$$;
