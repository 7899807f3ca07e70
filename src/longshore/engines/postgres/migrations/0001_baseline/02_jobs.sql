-- Jobs: segments hold what was submitted, spans hold where it is.
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
--
-- Columns of lists, bytes and JSON have `statistics 0`: no statement looks for them, and their
-- statistics take the server seconds per table.

-- What was submitted.
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
alter table longshore.segment
    alter column ids set storage external,
    alter column ids set statistics 0,
    alter column payloads set statistics 0,
    alter column bounds set statistics 0,
    alter column types set statistics 0,
    alter column tenants set statistics 0,
    alter column keys set statistics 0,
    alter column attributes set statistics 0;
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

-- In which segment the job with an id is.
create table longshore.locator (
    id      uuid     primary key,
    segment bigint   not null,
    ordinal smallint not null
) with (autovacuum_vacuum_insert_scale_factor = 0.5);

-- Spans that a claim may take. In a fair queue the lane of a span is its tenant, and no span has
-- jobs of several; elsewhere it is mostly empty, and means nothing.
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
    types       text[] collate "C",
    lane        text collate "C" not null default ''
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
alter table longshore.ready
    alter column mask set statistics 0,
    alter column types set statistics 0;
-- It ends in `hi`, not in `lo`: a claim takes from the front, which moves `lo`.
create index ready_head on longshore.ready (queue, type, rank, segment, hi);
create index ready_segment on longshore.ready (segment);
-- Spans without a lane are not in it. It has an order of its own, so that no plan reads a lane by
-- another index.
create index ready_lane on longshore.ready (queue, lane, type, (rank + 0), segment, hi)
    where lane <> '';

-- Spans that are due later. `line` is the ordering key that the job joins when it is due; a retry
-- has kept its place in its line.
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
    types       text[] collate "C",
    line        text collate "C"
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
alter table longshore.scheduled
    alter column mask set statistics 0,
    alter column types set statistics 0;
create index scheduled_due on longshore.scheduled (run_at, segment, lo);
create index scheduled_segment on longshore.scheduled (segment);

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
alter table longshore.finished
    alter column mask set statistics 0,
    alter column started set storage external,
    alter column started set statistics 0,
    alter column finished set storage external,
    alter column finished set statistics 0;
comment on column longshore.finished.rank is 'of those that a replay may bring back';
create index finished_segment on longshore.finished (segment);
create index finished_age on longshore.finished (state, finished_at);
-- Dead and cancelled jobs are few among millions that succeeded.
create index finished_rare on longshore.finished (state, segment) where state <> 'succeeded';

-- What handlers returned.
create table longshore.result (
    segment bigint   not null,
    ordinal smallint not null,
    result  bytea    not null,
    primary key (segment, ordinal)
);
alter table longshore.result alter column result set statistics 0;

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
alter table longshore.attempt alter column failure set statistics 0;

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

-- Whether an ordinal between a span's ends belongs to it.
create function longshore.has(p_mask bytea, p_ordinal integer) returns boolean
language sql immutable
begin atomic
    select p_mask is null or get_bit(p_mask, p_ordinal) = 1;
end;

-- The mask of these ordinals, for a span that ends before p_hi.
create function longshore.mask(p_ordinals integer[], p_hi integer) returns bytea
language plpgsql immutable
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_mask  bytea := decode(repeat('00', (p_hi + 7) / 8), 'hex');
    v_place integer;
begin
    foreach v_place in array p_ordinals loop
        v_mask := set_bit(v_mask, v_place, 1);
    end loop;
    return v_mask;
end
$$;

-- Which of a span's jobs an ordinal is, counted from 1: the place of its times.
create function longshore.nth(p_lo integer, p_mask bytea, p_ordinal integer) returns integer
language sql immutable
begin atomic
    select case when p_mask is null then p_ordinal - p_lo + 1
                else 1 + bit_count(substring(p_mask from 1 for p_ordinal / 8))
                       + bit_count((get_byte(p_mask, p_ordinal / 8)
                                    & ((1 << p_ordinal % 8) - 1))::bit(8)) end::integer;
end;

-- Where the first p_count jobs of a span that has more end, and the masks of both parts.
create function longshore.cut(
    p_lo smallint, p_hi smallint, p_mask bytea, p_count integer,
    out at smallint, out front bytea, out rest bytea
) language plpgsql immutable
    set search_path = pg_catalog, pg_temp
as $$
declare
    v_taken integer := 0;
begin
    if p_mask is null then
        at := p_lo + p_count;
        return;
    end if;
    at := p_lo;
    front := p_mask;
    rest := p_mask;
    while v_taken < p_count loop
        v_taken := v_taken + get_bit(p_mask, at);
        rest := set_bit(rest, at, 0);
        at := at + 1;
    end loop;
    for i in at .. p_hi - 1 loop
        front := set_bit(front, i, 0);
    end loop;
end
$$;

-- Whether a span holds one of these jobs.
create function longshore.has_any(
    p_segment bigint, p_lo integer, p_hi integer, p_mask bytea, p_handles bigint[]
) returns boolean language sql immutable
begin atomic
    select exists (select from unnest(p_handles) h
                    where h >= p_segment * 4096 + p_lo and h < p_segment * 4096 + p_hi
                      and longshore.has(p_mask, (h & 4095)::integer));
end;

-- The payload of one job of a segment.
create function longshore.payload(p_payloads bytea, p_bounds integer[], p_ordinal integer)
returns bytea language sql immutable
begin atomic
    select substring(p_payloads from p_bounds[p_ordinal + 1] + 1
                     for p_bounds[p_ordinal + 2] - p_bounds[p_ordinal + 1]);
end;

-- How many jobs of a span belong to which tenant.
create function longshore.owners(
    p_segment longshore.segment, p_lo integer, p_hi integer, p_mask bytea, p_size integer
) returns table (tenant text, jobs bigint) language sql stable
begin atomic
    select p_segment.tenant, p_size::bigint where p_segment.tenant <> ''
    union all
    select t.tenant, count(*)
      from unnest(p_segment.tenants[p_lo + 1 : p_hi]) with ordinality as t (tenant, place)
     where p_segment.tenant = '' and longshore.has(p_mask, p_lo + t.place::integer - 1)
     group by t.tenant;
end;
