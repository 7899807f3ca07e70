-- migration_table: where the store remembers its migrations. Code of every version reads it: it
-- only ever gets more columns. `works_with` is the lowest level of code that may work with the
-- migration: the newest migration such code knows. Until `announced_until` code below that has
-- to leave, though nothing is applied yet.
create table if not exists longshore_migration (
    number          integer primary key,
    name            text    not null,
    checksum        text    not null,
    works_with      integer not null,
    announced_until integer not null default 0,
    applied_at      integer
) strict
