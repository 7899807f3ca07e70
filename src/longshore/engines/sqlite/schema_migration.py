"""Bring the file's schema up to date, when nobody works on it who could not go on.

All that is missing is applied in one write transaction, up to the first migration that older
workers cannot work beside. That one is announced, which makes them leave, and applied when the
last of them has.
"""

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.transaction import Transaction
from longshore.engines.sqlite.writer import Writer
from longshore.errors import EngineBusyError, LongshoreError, SchemaError
from longshore.runtime.clock import SECOND
from longshore.runtime.migrate import (
    Migration,
    Remembered,
    check,
    level,
    pending,
    read_migrations,
)

__all__ = ["MIGRATIONS", "PATIENCE", "enter", "migrate", "verify"]

MIGRATIONS = read_migrations("longshore.engines.sqlite.migrations")
PATIENCE = 60.0
"""Seconds to wait for older workers that have to leave."""
_ANNOUNCED = 60 * SECOND
"""How long an announcement lasts when nobody repeats it."""
_PAUSE = 0.1


async def migrate(
    writer: Writer,
    *,
    migrations: Sequence[Migration] = MIGRATIONS,
    max_wait: float = PATIENCE,
) -> list[str]:
    """Apply what is missing; the names of what was applied.

    Older workers that cannot go on are asked to leave; after `max_wait` seconds that they are
    still there it is an EngineBusyError. With 0 nobody is asked.
    """
    try:
        return await _apply_all(writer, migrations, max_wait)
    except BaseException:
        if max_wait > 0:
            with suppress(LongshoreError):
                await writer.call(_withdraw)
        raise


def enter(transaction: Transaction, token: int) -> None:
    """Return if a session that is being opened may work here, else SchemaError."""
    db = transaction.db
    verify(transaction)
    db.execute(SQL.migration_level_prune)
    db.execute(SQL.migration_level, {"token": token, "level": level(MIGRATIONS)})


def verify(transaction: Transaction) -> None:
    """Return if this version may work on the schema, else SchemaError."""
    check(MIGRATIONS, _remembered(transaction))


async def _apply_all(
    writer: Writer, migrations: Sequence[Migration], patience: float
) -> list[str]:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience
    applied: list[str] = []
    while True:
        names, waiting = await writer.call(partial(_apply, migrations, announces=patience > 0))
        applied += names
        if waiting is None:
            return applied
        if loop.time() >= deadline:
            raise EngineBusyError(
                f"older workers that cannot go on beside {waiting.name} are at work; stop "
                "them, or run `longshore migrate`, which asks them to leave"
            )
        await asyncio.sleep(_PAUSE)


def _apply(
    migrations: Sequence[Migration], transaction: Transaction, *, announces: bool
) -> tuple[list[str], Migration | None]:
    """What was applied, and what could not be because of someone who has to leave first."""
    db = transaction.db
    if db.execute("pragma encoding").fetchone() != ("UTF-8",):
        # `claimed` strings blobs together as if they were texts.
        raise SchemaError("the file keeps its texts as UTF-16; use a file of its own")
    db.execute(SQL.migration_table)
    db.execute(SQL.migration_levels)
    applied: list[str] = []
    for one in pending(migrations, _remembered(transaction)):
        facts: dict[str, object] = {
            "number": one.number,
            "name": one.name,
            "checksum": one.checksum,
            "works_with": one.works_with,
        }
        if _has_behind(transaction, one):
            if announces:
                until = transaction.now + _ANNOUNCED
                db.execute(SQL.migration_announce, {**facts, "until": until})
            return applied, one
        for statement in _statements(one):
            db.execute(statement)
        db.execute(SQL.migration_add, {**facts, "now": transaction.now})
        applied.append(one.name)
    return applied, None


def _withdraw(transaction: Transaction) -> None:
    transaction.db.execute(SQL.migration_withdraw)


def _has_behind(transaction: Transaction, one: Migration) -> bool:
    """Whether a worker is there that cannot go on beside this migration."""
    db = transaction.db
    if one.number == 1:
        return False
    scope = {"works_with": one.works_with, "now": transaction.now}
    return db.execute(SQL.migration_behind, scope).fetchone()[0] > 0


def _remembered(transaction: Transaction) -> list[Remembered]:
    rows = transaction.db.execute(SQL.migrations_applied, {"now": transaction.now})
    return [
        Remembered(number, name, checksum, works_with, bool(is_applied))
        for number, name, checksum, works_with, is_applied in rows
    ]


def _statements(migration: Migration) -> list[str]:
    """Single statements: `executescript` would commit in the middle."""
    found: list[str] = []
    text = ""
    for line in migration.statements.splitlines(keepends=True):
        text += line
        if sqlite3.complete_statement(text):
            found.append(text)
            text = ""
    return found
