-- Fair queues, whose tenants take turns. Code that puts jobs into no lane has to leave.

-- In a fair queue the lane of a ready job is its tenant; elsewhere it is mostly empty, and means
-- nothing. Those without one cost nothing: they are in no index by lane.
alter table longshore_ready add column lane text not null default '';
create index longshore_ready_lane on longshore_ready (queue, lane, type, rank, seq)
    where lane <> '';

-- Where a job of a fair queue stands in its claim, which its rank does not tell.
alter table longshore_held add column place integer;

-- How far a fair queue is, and its tenants that are ahead of that: core.fair says what it means.
alter table longshore_flow add column vtime integer not null default 0;
create table longshore_fair (
    queue  text    not null,
    tenant text    not null,
    vtime  integer not null,
    primary key (queue, tenant)
) strict, without rowid;
