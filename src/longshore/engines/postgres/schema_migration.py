"""Bring the database's schema up to date, while others work on it.

Each migration goes through three transactions at the least. The first announces it: code that
may not work beside it is let in no more, and what runs of it drains and leaves. Then, again
and again, a look whether such code still holds a lease. The last one looks, applies the
migration and remembers it. A session that opens does it the other way round: it is there
first, then it looks whether anything was announced. So one of the two sees the other.

Whoever migrates holds an advisory lock meanwhile, one transaction at a time.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from longshore.engines.postgres.connection import Connection, Record
from longshore.engines.postgres.database import Database
from longshore.engines.postgres.faults import DRIVER_ERRORS, sqlstate, translated
from longshore.engines.postgres.sql import SQL
from longshore.engines.postgres.transaction import transact_on
from longshore.errors import (
    EngineBusyError,
    EngineUnavailableError,
    LongshoreError,
    SchemaError,
)
from longshore.runtime.migrate import (
    Migration,
    Remembered,
    check,
    level,
    pending,
    read_migrations,
)

__all__ = ["LEVEL", "MIGRATIONS", "migrate", "verify"]

MIGRATIONS = read_migrations("longshore.engines.postgres.migrations")
LEVEL = level(MIGRATIONS)
"""Up to which migration this code knows them."""
PATIENCE = 60.0
"""Seconds to wait for another migrator, for older workers, or for a transaction that holds a
lock; for each migration anew."""
_LONGEST = 900.0
"""Seconds that one migration may take. An announcement lasts longer."""
_WITHDRAWING = 2.0
_PAUSE_FOR_OTHERS = 0.1
_PAUSE_FOR_LOCK = 1.5

# Whoever waits for a lock makes everybody behind it wait as well, so it waits little and lets
# them pass. A migration may run for longer than a call.
_BEGIN = (
    "begin isolation level read committed;"
    " set local lock_timeout = '200ms'; set local statement_timeout = '10min';"
    " set local idle_in_transaction_session_timeout = '60s'"
)
# Where workers go on, what it locks it must not lock for long.
_BRISKLY = "set local statement_timeout = '5s'"
# A statement that runs beside writers waits for old transactions, and nobody waits for it. The
# transaction that holds the advisory lock has nothing to do meanwhile.
_OUTSIDE = "set statement_timeout = '14min'; set lock_timeout = 0"
_HOLDING = "set local idle_in_transaction_session_timeout = 0"


async def migrate(
    database: Database,
    *,
    migrations: Sequence[Migration] = MIGRATIONS,
    max_wait: float = PATIENCE,
) -> list[str]:
    """Apply what is missing, one after the other; the names of what was applied.

    Safe to run twice and in many processes at once. Where a long transaction or a worker that
    has to leave is in the way it tries again and again, and after `max_wait` seconds it is an
    EngineBusyError.
    """
    connector = database.connector
    with translated(connector.place):
        connection = await connector.open(role="migrate")
        run = _Run(database, connection, migrations)
        try:
            applied = await run.apply_all(max_wait)
        except BaseException:
            connector.discard(connection)
            await run.withdraw()
            raise
        connector.discard(connection)
        return applied


async def verify(database: Database, *, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Return if this version may work on the schema and it can be written, else raise."""
    rows = await database.fetch(SQL.migrations_applied)
    check(migrations, _remembered(rows))
    if rows[0]["is_read_only"]:
        raise EngineUnavailableError(f"{database.connector.place}: it is read-only")


class _Run:
    """One call of `migrate`."""

    def __init__(
        self, database: Database, connection: Connection, migrations: Sequence[Migration]
    ) -> None:
        self._database = database
        self._connector = database.connector
        self._connection = connection
        self._migrations = migrations
        self._next: int | None = None
        self._announced: int | None = None

    async def apply_all(self, patience: float) -> list[str]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience
        applied: list[str] = []
        while True:
            try:
                done = await self._step()
            except EngineBusyError as error:
                if loop.time() > deadline:
                    raise
                await self._pause(is_lock=sqlstate(error) is not None)
                continue
            if done is None:
                return applied
            if done:
                applied.append(done)
                deadline = loop.time() + patience

    async def withdraw(self) -> None:
        """Take back what was announced and is not applied. It lapses anyway."""
        with suppress(LongshoreError, TimeoutError):
            async with asyncio.timeout(_WITHDRAWING):
                is_over = False
                while not is_over:
                    is_over = await self._database.transact(self._withdraw)
                    await asyncio.sleep(0 if is_over else _PAUSE_FOR_OTHERS)

    async def _pause(self, *, is_lock: bool) -> None:
        if is_lock:
            # However many wait for the same lock, the queue has its turn between them.
            with suppress(SchemaError):  # before the first migration there is no table
                await self._database.fetch(SQL.migration_tried, self._next)
        pause = _PAUSE_FOR_LOCK if is_lock else _PAUSE_FOR_OTHERS
        await asyncio.sleep(self._connector.jitter(pause))

    async def _withdraw(self, connection: Connection) -> bool:
        """False while someone is about to apply it, who may be what is left of this run."""
        if self._announced is None:
            return True
        if not await connection.fetchval(SQL.migration_lock):
            return False
        await connection.execute(SQL.migration_withdraw, self._announced)
        return True

    async def _step(self) -> str | None:
        """Apply the first that is missing: its name, or "" if it was but announced, or None."""
        with translated(self._connector.place):
            async with asyncio.timeout(_LONGEST):
                return await transact_on(
                    self._connector, self._connection, self._advance, begin=_BEGIN
                )

    async def _advance(self, connection: Connection) -> str | None:
        if not await connection.fetchval(SQL.migration_lock):
            raise EngineBusyError("another process is migrating this database; try again")
        home = await connection.fetchrow(SQL.migration_home)
        assert home is not None
        if not home["has_schema"]:
            await connection.execute(SQL.migration_schema)
        if not home["has_table"]:
            await connection.execute(SQL.migration_table)
        rows = await connection.fetch(SQL.migrations_applied)
        missing = pending(self._migrations, _remembered(rows))
        if not missing:
            return None
        one = missing[0]
        self._next = one.number
        if home["has_sessions"] and not await self._is_clear(connection, one):
            self._announced = one.number
            await connection.execute(SQL.migration_announce, *_facts(one))
            return ""
        await self._apply(connection, one)
        await connection.execute(SQL.migration_add, *_facts(one))
        return one.name

    async def _is_clear(self, connection: Connection, one: Migration) -> bool:
        """Nobody is left who cannot work beside it, nor comes; False before it is announced."""
        found = await connection.fetchrow(
            SQL.migration_behind,
            self._database.now(),
            one.works_with,
            one.number,
            one.checksum,
        )
        assert found is not None
        if found["is_announced"] and found["sessions"]:
            raise EngineBusyError(
                f"older workers that cannot go on beside {one.name} still hold a lease "
                f"({found['sessions']}); they were asked to leave, try again"
            )
        if found["is_tried"]:
            raise EngineBusyError("another process waits for a lock too; try again")
        return found["is_announced"]

    async def _apply(self, connection: Connection, one: Migration) -> None:
        if one.is_outside:
            await connection.execute(_HOLDING)
            await self._apply_outside(one)
            return
        if one.works_with < one.number:
            await connection.execute(_BRISKLY)
        await connection.execute(one.statements)

    async def _apply_outside(self, one: Migration) -> None:
        connection = await self._connector.open(role="migrate")
        try:
            if not self._connector.is_pooled:
                await connection.execute(_OUTSIDE)
            await _remove_rest(connection, one)
            try:
                await connection.execute(one.statements)
            except DRIVER_ERRORS:
                with suppress(*DRIVER_ERRORS):
                    await _remove_rest(connection, one)
                raise
        finally:
            self._connector.discard(connection)


async def _remove_rest(connection: Connection, one: Migration) -> None:
    """Remove the index that an earlier try left half built: it counts as existing."""
    statement = await connection.fetchval(SQL.migration_rest, one.index or "")
    if statement is not None:
        await connection.execute(statement)


def _facts(one: Migration) -> tuple[int, str, str, int]:
    return one.number, one.name, one.checksum, one.works_with


def _remembered(rows: Sequence[Record]) -> list[Remembered]:
    return [
        Remembered(
            row["number"], row["name"], row["checksum"], row["works_with"], row["is_applied"]
        )
        for row in rows
        if row["number"] is not None
    ]
