-- Segments, spans and everything that keeps them. Times are microseconds since the epoch.
--
-- A segment is what arrived together and is alike: its jobs share queue, priority and limits, and
-- are numbered by ordinals from 0. If they are of several types or tenants, `type` or `tenant` is
-- empty and `types` or `tenants` has one per job. A segment never changes, but for what is erased
-- of a job that someone deletes. A job's handle is segment * 4096 + ordinal.
-- A span is the jobs of one segment, between two ordinals, that are in the same state: one row,
-- however many they are. A mask says which ordinals between `lo` and `hi` belong to it: bit k of
-- the mask (get_bit) is ordinal k; null means all of them. Where a span's row is, that is the
-- state of its jobs: ready, scheduled, claimed or finished. A span that waits and has jobs of
-- several types, no others than `types`, has an empty `type`; it is parted by type when a claim
-- may not take all of it.

create sequence longshore.segment_number;
create sequence longshore.token_number;

create table longshore.segment (
    segment      bigint primary key,
    queue        text collate "C" not null,
    type         text collate "C" not null,
    tenant       text collate "C" not null,
    priority     smallint not null,
    max_attempts integer  not null,
    timeout      bigint,
    created_at   bigint   not null,
    size         smallint not null,
    weight       integer  not null,
    ids          bytea    not null,
    payloads     bytea    not null,
    bounds       integer[] not null,
    types        text[] collate "C",
    tenants      text[] collate "C",
    keys         jsonb,
    attributes   jsonb
) with (autovacuum_vacuum_insert_scale_factor = 0.5);
alter table longshore.segment alter column ids set storage external;
do $$
begin
    -- Several times as fast as the default, where the server was built with it.
    alter table longshore.segment alter column payloads set compression lz4;
exception when feature_not_supported then
    null;
end
$$;
comment on column longshore.segment.weight is 'bytes of the largest payload';
comment on column longshore.segment.ids is 'sixteen bytes per job';
comment on column longshore.segment.payloads is 'one behind the other';
comment on column longshore.segment.bounds is
    'where payloads begin, counted from 0, and where the last one ends';
comment on column longshore.segment.keys is
    'the keys of single jobs, by ordinal: for idempotency, uniqueness, order';
comment on column longshore.segment.attributes is
    'what handlers see of single jobs, by ordinal: trace, tags';

-- Where a job is told by its id.
create table longshore.locator (
    id      uuid     primary key,
    segment bigint   not null,
    ordinal smallint not null
) with (autovacuum_vacuum_insert_scale_factor = 0.5);

-- The index ends in `hi`, not in `lo`: a claim takes from the front, which moves `lo`.
create table longshore.ready (
    queue       text collate "C" not null,
    type        text collate "C" not null,
    rank        bigint   not null,
    segment     bigint   not null,
    lo          smallint not null,
    hi          smallint not null,
    size        smallint not null,
    weight      integer  not null,
    mask        bytea,
    run_at      bigint   not null,
    delivery    integer  not null default 0,
    attempt     integer  not null default 0,
    failures    integer  not null default 0,
    crashes     integer  not null default 0,
    lapses      integer  not null default 0,
    is_replayed boolean  not null default false,
    types       text[] collate "C"
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
create index ready_head on longshore.ready (queue, type, rank, segment, hi);
create index ready_segment on longshore.ready (segment);

-- Where claims begin to look, while an old snapshot keeps the server from forgetting what was
-- claimed before: see longshore.look_ahead. Of a queue and a type, ranks from `low` up to and
-- without `high`, until `all_at`; empty as long as claims are quick.
create table longshore.horizon (
    queue  text collate "C" not null,
    type   text collate "C" not null,
    low    bigint not null,
    high   bigint not null,
    all_at timestamptz not null,
    primary key (queue, type, high)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

create table longshore.scheduled (
    run_at      bigint   not null,
    segment     bigint   not null,
    lo          smallint not null,
    hi          smallint not null,
    size        smallint not null,
    weight      integer  not null,
    mask        bytea,
    queue       text collate "C" not null,
    type        text collate "C" not null,
    rank        bigint   not null,
    delivery    integer  not null default 0,
    attempt     integer  not null default 0,
    failures    integer  not null default 0,
    crashes     integer  not null default 0,
    lapses      integer  not null default 0,
    is_replayed boolean  not null default false,
    types       text[] collate "C"
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
create index scheduled_due on longshore.scheduled (run_at, segment, lo);
create index scheduled_segment on longshore.scheduled (segment);

create table longshore.session (
    token      bigint  primary key,
    worker     text    not null,
    queues     text[]  not null,
    types      text[]  not null,
    lease      bigint  not null,
    opened_at  bigint  not null,
    renewed_at bigint  not null,
    expires_at bigint  not null,
    is_quiet   boolean not null default false
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

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

-- From one crash of the server to the next. The table is unlogged: a crash empties it, also one
-- that the server recovers from without a restart, and so does a standby that takes over; an
-- orderly restart does not. One row at most.
create unlogged table longshore.era (
    is_only  boolean primary key default true check (is_only),
    number   bigint  not null,
    is_clear boolean not null default false
);
comment on column longshore.era.is_clear is
    'whether each session that waited before it has been heard of since, or is over';

-- What a session holds. A span leaves when its last job has ended; what ended before that is in
-- the session's journal.
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
alter table longshore.journal alter column handles set storage external;
alter table longshore.journal alter column started set storage external;
alter table longshore.journal alter column finished set storage external;

-- Spans whose jobs succeeded, died or were cancelled. The times stand in the order of ordinals;
-- `finished_at` is the earliest of them.
create table longshore.finished (
    segment     bigint   not null,
    lo          smallint not null,
    hi          smallint not null,
    size        smallint not null,
    mask        bytea,
    state       text     not null,
    run_at      bigint   not null,
    delivery    integer  not null,
    attempt     integer  not null,
    failures    integer  not null,
    crashes     integer  not null,
    lapses      integer  not null,
    finished_at bigint   not null,
    started     bigint[],
    finished    bigint[] not null,
    reason      text,
    worker      text,
    rank        bigint
) with (autovacuum_vacuum_insert_scale_factor = 0.5);
alter table longshore.finished alter column started set storage external;
alter table longshore.finished alter column finished set storage external;
comment on column longshore.finished.rank is 'of those that a replay may bring back';
create index finished_segment on longshore.finished (segment);
create index finished_age on longshore.finished (state, finished_at);
-- Dead and cancelled jobs are few among millions that succeeded.
create index finished_rare on longshore.finished (state, segment) where state <> 'succeeded';

create table longshore.result (
    segment bigint   not null,
    ordinal smallint not null,
    result  bytea    not null,
    primary key (segment, ordinal)
);

-- Deliveries that ended in anything but success; a success is told by its span.
create table longshore.attempt (
    segment     bigint   not null,
    ordinal     smallint not null,
    delivery    integer  not null,
    attempt     integer  not null,
    outcome     text     not null,
    worker      text,
    started_at  bigint,
    finished_at bigint,
    failure     jsonb,
    primary key (segment, ordinal, delivery)
);

-- The last report of a job, which counts as long as the job is in that delivery. In a table of
-- its own: jobs that never report are claimed and settled as if there were none.
create table longshore.progress (
    segment  bigint   not null,
    ordinal  smallint not null,
    delivery integer  not null,
    fraction double precision not null,
    message  text,
    at       bigint   not null,
    primary key (segment, ordinal)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);

-- Running jobs that someone asked to stop. A row means something while that delivery is held.
create table longshore.request (
    token    bigint  not null,
    handle   bigint  not null,
    delivery integer not null,
    reason   text    not null,
    primary key (token, handle, delivery)
);

create table longshore.idempotency (
    tenant      text collate "C" not null,
    key         text collate "C" not null,
    fingerprint bytea  not null,
    id          uuid   not null,
    created_at  bigint not null,
    run_at      bigint not null,
    primary key (tenant, key)
);
comment on column longshore.idempotency.created_at is 'the arrival of the job';
comment on column longshore.idempotency.run_at is
    'when the job was due as it was accepted: it may be gone long before its key';
create index idempotency_age on longshore.idempotency (created_at);

-- Who holds a unique key. A finished holder is replaced by the next submit, so settling does no
-- work for it.
create table longshore.uniqueness (
    tenant text collate "C" not null,
    key    text collate "C" not null,
    id     uuid not null,
    primary key (tenant, key)
);
create index uniqueness_id on longshore.uniqueness (id);

-- An empty string stands for any.
create table longshore.pause (
    queue text collate "C" not null,
    type  text collate "C" not null,
    primary key (queue, type)
);

create table longshore.schedule (
    tenant     text collate "C" not null,
    name       text collate "C" not null,
    definition text    not null,
    is_paused  boolean not null,
    next_due   bigint,
    last_due   bigint,
    last_job   uuid,
    primary key (tenant, name)
);
create index schedule_due on longshore.schedule (next_due)
    where next_due is not null and not is_paused;

-- A due time fires once: the primary key says so.
create table longshore.firing (
    tenant text collate "C" not null,
    name   text collate "C" not null,
    due    bigint not null,
    id     uuid,
    primary key (tenant, name, due)
);
create index firing_age on longshore.firing (due);

-- One row per transaction. Transactions commit in another order than they take numbers, so a
-- reader gives positions to what it sees: what commits later comes later.
create table longshore.outbox (
    number       bigint generated always as identity primary key,
    at           bigint not null,
    body         bytea  not null,
    position     bigint,
    published_at bigint
) with (fillfactor = 90, autovacuum_vacuum_insert_scale_factor = 0.5);
alter table longshore.outbox alter column body set storage external;
create sequence longshore.outbox_position;
create index outbox_fresh on longshore.outbox (number) where position is null;
create unique index outbox_order on longshore.outbox (position) where position is not null;
-- An expression of its own: no other index has this order, so no plan reads what is shipped.
create index outbox_unpublished on longshore.outbox ((position + 0))
    where position is not null and published_at is null;
create index outbox_age on longshore.outbox (at);
-- Shipped events by age: with a relay far behind, what it has not shipped is not looked at.
create index outbox_shipped on longshore.outbox (at) where published_at is not null;

-- Single facts about the store, such as whether a relay ever read its outbox.
create table longshore.fact (
    name  text primary key,
    value text not null
);

-- No statement looks for these, and statistics of lists take the server seconds per table.
do $$
declare
    v_column record;
begin
    for v_column in
        select c.table_name, c.column_name from information_schema.columns c
         where c.table_schema = 'longshore' and c.data_type in ('ARRAY', 'bytea', 'jsonb')
    loop
        execute format('alter table longshore.%I alter column %I set statistics 0',
                       v_column.table_name, v_column.column_name);
    end loop;
end
$$;
