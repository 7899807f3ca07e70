-- migration_table: where the store remembers its migrations.
create table longshore.migration (
    number     integer primary key,
    name       text    not null,
    checksum   text    not null,
    applied_at timestamptz not null default now()
)
