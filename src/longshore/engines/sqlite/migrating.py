"""Bring the file's schema up to date."""

import sqlite3

from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.writer import Transaction
from longshore.errors import SchemaError
from longshore.runtime.migrate import Migration, pending, read_migrations

__all__ = ["migrate", "verify"]

MIGRATIONS = read_migrations("longshore.engines.sqlite.migrations")


def migrate(transaction: Transaction) -> list[str]:
    """Apply what is missing; the names of what was applied."""
    db = transaction.db
    if db.execute("pragma encoding").fetchone() != ("UTF-8",):
        # `claimed` strings blobs together as if they were texts.
        raise SchemaError("the file keeps its texts as UTF-16; use a file of its own")
    db.execute(SQL.migration_table)
    missing = pending(MIGRATIONS, _applied(db))
    for one in missing:
        for statement in _statements(one):
            db.execute(statement)
        facts = {"number": one.number, "name": one.name, "checksum": one.checksum}
        db.execute(SQL.migration_add, {**facts, "now": transaction.now})
    return [one.name for one in missing]


def verify(db: sqlite3.Connection) -> None:
    """Return if the schema is what this version needs, else SchemaError."""
    missing = pending(MIGRATIONS, _applied(db))
    if missing:
        raise SchemaError(f"migration {missing[0].name} is missing; run `longshore migrate`")


def _applied(db: sqlite3.Connection) -> dict[int, str]:
    return dict(db.execute(SQL.migrations_applied).fetchall())


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
