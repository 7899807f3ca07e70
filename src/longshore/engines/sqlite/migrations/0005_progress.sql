-- How far jobs say they are.
-- longshore: works-with 0004

-- The last report of a job, which counts as long as the job is in that delivery. In a table of
-- its own: jobs that never report are claimed and settled as if there were none.
create table longshore_progress (
    seq      integer primary key,
    delivery integer not null,
    fraction real    not null,
    message  text,
    at       integer not null
) strict;
