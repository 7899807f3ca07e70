-- Counting, pruning and listing that cost the same however many jobs are kept.

-- How many finished jobs a queue keeps, which may be millions: each transaction adds what it
-- changed. Jobs that still have to run are counted from their indexes, where they are.
create table longshore_count (
    tenant text    not null,
    queue  text    not null,
    state  text    not null,
    jobs   integer not null,
    primary key (tenant, queue, state)
) strict, without rowid;

insert into longshore_count (tenant, queue, state, jobs)
select tenant, queue, state, count(*) from longshore_job
 where finished_at is not null group by tenant, queue, state;

-- The last columns are there for counts, which then need not look at the jobs.
drop index longshore_job_ready;
create index longshore_job_ready on longshore_job (queue, type, rank, seq, run_at)
    where state = 'ready' and parked is null;
drop index longshore_job_due;
create index longshore_job_due on longshore_job (run_at, seq, queue) where state = 'scheduled';
create index longshore_job_parked on longshore_job (queue, run_at)
    where state = 'ready' and parked is not null;

-- A unique key goes with its job from now on; these were left behind.
delete from longshore_unique where not exists (
    select 1 from longshore_job j where j.id = longshore_unique.id);

create index longshore_session_ended on longshore_session (closed_at)
    where closed_at is not null;
create index longshore_firing_age on longshore_firing (due);
create index longshore_outbox_shipped on longshore_outbox (at) where published_at is not null;
