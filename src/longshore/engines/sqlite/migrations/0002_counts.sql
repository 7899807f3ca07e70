-- Counting, pruning and listing that cost the same however many jobs are kept.

-- How many jobs of a queue are in the states that may hold millions: scheduled and finished.
-- Each transaction adds what it changed. The ready and the running are counted from their
-- indexes, because a claim does not know its jobs' tenants.
create table longshore_count (
    tenant text    not null,
    queue  text    not null,
    state  text    not null,
    jobs   integer not null,
    primary key (tenant, queue, state)
) strict, without rowid;

insert into longshore_count (tenant, queue, state, jobs)
select tenant, queue, state, count(*) from longshore_job
 where state not in ('ready', 'running') group by tenant, queue, state;

-- run_at is there for counts, which then need not look at the jobs.
drop index longshore_job_ready;
create index longshore_job_ready on longshore_job (queue, type, rank, seq, run_at)
    where state = 'ready' and parked is null;
create index longshore_job_parked on longshore_job (queue, run_at)
    where state = 'ready' and parked is not null;

-- A unique key goes with its job from now on; these were left behind.
delete from longshore_unique where not exists (
    select 1 from longshore_job j where j.id = longshore_unique.id);

create index longshore_session_ended on longshore_session (closed_at)
    where closed_at is not null;
create index longshore_firing_age on longshore_firing (due);
create index longshore_outbox_shipped on longshore_outbox (at) where published_at is not null;
