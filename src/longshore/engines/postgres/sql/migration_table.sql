-- migration_table: where the store remembers its migrations, and up to which one the code of
-- each session knows them. Code of every version reads these: they only ever get more columns.
create table longshore.migration (
    number          integer primary key,
    name            text    not null,
    checksum        text    not null,
    works_with      integer not null,
    announced_until timestamptz,
    tried_at        timestamptz,
    applied_at      timestamptz
);
comment on column longshore.migration.works_with is
    'the lowest level of code that may work with it: the newest migration such code knows';
comment on column longshore.migration.announced_until is
    'until then code below that level has to leave, though nothing is applied yet';
create table longshore.session_level (
    token bigint  primary key,
    level integer not null
)
