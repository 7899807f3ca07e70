"""Bring the database's schema up to date, while others work on it."""

import asyncio
from collections.abc import Sequence

from longshore.engines.postgres.connecting import Connection, Connector, Record
from longshore.engines.postgres.database import Database
from longshore.engines.postgres.faults import sqlstate, translated
from longshore.engines.postgres.sql import SQL
from longshore.engines.postgres.transaction import transact_on
from longshore.errors import EngineBusyError, EngineUnavailableError, SchemaError
from longshore.runtime.migrate import Migration, pending, read_migrations

__all__ = ["MIGRATIONS", "migrate", "verify"]

MIGRATIONS = read_migrations("longshore.engines.postgres.migrations")
PATIENCE = 60.0
"""Seconds to wait for another migrator, or for a transaction that holds a lock."""
_LONGEST = 900.0
"""Seconds that all of it may take."""
_PAUSE_FOR_MIGRATOR = 0.1
_PAUSE_FOR_LOCK = 1.5

# Whoever waits for a lock makes everybody behind it wait as well, so it waits little and lets
# them pass. A migration may run for longer than a call.
_BEGIN = (
    "begin isolation level read committed;"
    " set local lock_timeout = '200ms'; set local statement_timeout = '10min';"
    " set local idle_in_transaction_session_timeout = '60s'"
)


async def migrate(
    database: Database,
    *,
    migrations: Sequence[Migration] = MIGRATIONS,
    patience: float = PATIENCE,
) -> list[str]:
    """Apply what is missing, each in a transaction of its own; the names of what was applied.

    Safe to run twice and in many processes at once. Where a long transaction is in the way it
    tries again and again, and after `patience` seconds it is an EngineBusyError.
    """
    connector = database.connector
    with translated(connector.place):
        async with asyncio.timeout(_LONGEST):
            connection = await connector.open(role="migrate")
            try:
                return await _apply_all(connector, connection, list(migrations), patience)
            finally:
                connector.discard(connection)


async def verify(database: Database, *, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Return if the schema is what this version needs and can be written, else raise."""
    rows = await database.fetch(SQL.migrations_applied)
    missing = pending(list(migrations), _numbers(rows))
    if missing:
        raise SchemaError(f"migration {missing[0].name} is missing; run `longshore migrate`")
    if rows[0]["is_read_only"]:
        raise EngineUnavailableError(f"{database.connector.place}: it is read-only")


async def _apply_all(
    connector: Connector, connection: Connection, migrations: list[Migration], patience: float
) -> list[str]:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience
    applied: list[str] = []
    while True:
        try:
            with translated(connector.place):
                name = await transact_on(
                    connector,
                    connection,
                    lambda one: _apply_next(one, migrations),
                    begin=_BEGIN,
                )
        except EngineBusyError as error:
            if loop.time() > deadline:
                raise
            is_lock = sqlstate(error) is not None
            pause = _PAUSE_FOR_LOCK if is_lock else _PAUSE_FOR_MIGRATOR
            await asyncio.sleep(connector.jitter(pause))
            continue
        if name is None:
            return applied
        applied.append(name)
        deadline = loop.time() + patience


async def _apply_next(connection: Connection, migrations: list[Migration]) -> str | None:
    """Apply the first that is missing; None when none is."""
    if not await connection.fetchval(SQL.migration_lock):
        raise EngineBusyError("another process is migrating this database; try again")
    home = await connection.fetchrow(SQL.migration_home)
    assert home is not None
    if not home["has_schema"]:
        await connection.execute(SQL.migration_schema)
    if not home["has_table"]:
        await connection.execute(SQL.migration_table)
    missing = pending(migrations, _numbers(await connection.fetch(SQL.migrations_applied)))
    if not missing:
        return None
    one = missing[0]
    await connection.execute(one.statements)
    await connection.execute(SQL.migration_add, one.number, one.name, one.checksum)
    return one.name


def _numbers(rows: Sequence[Record]) -> dict[int, str]:
    return {row["number"]: row["checksum"] for row in rows if row["number"] is not None}
