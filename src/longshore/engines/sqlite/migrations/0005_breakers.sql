-- The circuit breakers of types. Code that does not heed them has to leave.

-- What holds for a type whose jobs may fail too often, from both layers, and how its breaker
-- stands: both are JSON. A claim reads all of them; there are none where nothing is said.
create table longshore_breaker (
    type     text primary key,
    settings text not null,
    standing text not null default '{}'
) strict, without rowid;
