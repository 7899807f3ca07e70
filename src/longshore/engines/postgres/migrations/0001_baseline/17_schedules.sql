-- The times at which schedules fired. The schedules are records.

-- The due times that fired, and the job of each. A due time fires once: the primary key says so.
create table longshore.firing (
    tenant text collate "C" not null,
    name   text collate "C" not null,
    due    bigint not null,
    id     uuid,
    primary key (tenant, name, due)
);
create index firing_age on longshore.firing (due);
