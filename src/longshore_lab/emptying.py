"""Make a database as if it had just been migrated, for the next test."""

import asyncpg

__all__ = ["empty"]

# A truncate makes new files for every table and index: 30 ms against 1 ms.
_EMPTY = """
do $$
declare
    found record;
begin
    -- Whoever left a transaction open shall fail here, and not block the run.
    set local lock_timeout = '5s';
    for found in
        select format('%I.%I', relnamespace::regnamespace, relname) as name, relkind
          from pg_class
         where relnamespace = 'longshore'::regnamespace and relkind in ('r', 'S')
           and relname <> 'migration'
         -- What leaves the finished is counted in the tally.
         order by relname = 'tally'
    loop
        if found.relkind = 'r' then
            execute 'delete from ' || found.name;
        else
            perform setval(found.name, 1, false);
        end if;
    end loop;
    -- The one row that a migration puts there.
    insert into longshore.record (kind, name, body, created_at, changed_at, is_unique)
    values ('tenant', 'default', '{"name":"default"}', 0, 0, true);
    perform longshore.current_era();
end
$$
"""


async def empty(url: str) -> None:
    """Leave of Longshore's rows only the default tenant's, and let all numbers begin with 1."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(_EMPTY)
    finally:
        await connection.close()
