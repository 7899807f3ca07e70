-- migration_table: where the store remembers its migrations.
create table if not exists longshore_migration (
    number     integer primary key,
    name       text    not null,
    checksum   text    not null,
    applied_at integer not null
) strict
