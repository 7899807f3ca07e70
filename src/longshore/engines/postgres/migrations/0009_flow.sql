-- What is said of queues, and of the breakers of types.
-- longshore: works-with 0008

-- `kind` is `queue` or `breaker`, `layer` is `declared` or `overridden`; the settings are JSON.
create table longshore.setting (
    kind     text collate "C" not null,
    name     text collate "C" not null,
    layer    text collate "C" not null,
    settings text             not null,
    primary key (kind, name, layer)
);

-- What holds for a queue, from both layers: the one thing that a claim reads. It is changed by
-- those who claim alone from the queue (flow_key). `empty_at` is the queue's bucket, in
-- nanoseconds (core.bucket); `is_full`: somebody was refused because too many run.
create table longshore.flow (
    queue    text collate "C" primary key,
    settings jsonb   not null,
    empty_at bigint,
    is_full  boolean not null default false
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
