-- settling_create: where an exchange lays out its settlements before they are applied.
create temp table if not exists longshore_settling (
    seq         integer,
    delivery    integer,
    state       text,
    run_at      integer,
    charge      integer,
    crash       integer,
    lapse       integer,
    started_at  integer,
    finished_at integer,
    ended_at    integer,
    outcome     text,
    result      blob,
    failure     text,
    reason      text,
    primary key (seq, delivery)
) without rowid
