-- Schedules, and the times at which they fired.

-- Recurring definitions, as JSON, and when each is due next.
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

-- The due times that fired, and the job of each. A due time fires once: the primary key says so.
create table longshore.firing (
    tenant text collate "C" not null,
    name   text collate "C" not null,
    due    bigint not null,
    id     uuid,
    primary key (tenant, name, due)
);
create index firing_age on longshore.firing (due);
