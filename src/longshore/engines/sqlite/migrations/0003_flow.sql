-- What is said of queues, and of the breakers of types. Code that does not count what runs has to
-- leave.

-- `kind` is `queue` or `breaker`, `layer` is `declared` or `overridden`; the settings are JSON.
create table longshore_setting (
    kind     text not null,
    name     text not null,
    layer    text not null,
    settings text not null,
    primary key (kind, name, layer)
) strict, without rowid;

-- What holds for a queue, from both layers: the one thing that a claim reads. `running` is kept
-- while `max_running` is said; `empty_at` is the queue's bucket, in nanoseconds (core.bucket).
create table longshore_flow (
    queue    text    primary key,
    settings text    not null,
    running  integer not null default 0,
    empty_at integer
) strict, without rowid;
