"""Read what happened: as a spectator, or for a consumer with a cursor of its own."""

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from longshore.contract.records import Put, check
from longshore.core import audit_record
from longshore.core.consumer import Consumer, Cursor
from longshore.core.event import EventBatch, Span
from longshore.engines.sqlite.audit_records import record_order
from longshore.engines.sqlite.connection import Store
from longshore.engines.sqlite.records import store
from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.transaction import Transaction
from longshore.engines.sqlite.writer import Writer
from longshore.errors import CursorLostError
from longshore.runtime.actor import signed
from longshore.runtime.decoding import decoded_groups

__all__ = ["SqliteOutbox", "advance", "is_muted"]

T = TypeVar("T")


class SqliteOutbox:
    """One writer at a time: positions are in order of commit."""

    _writer: Writer
    _store: Store

    async def _read(self, body: Callable[[sqlite3.Connection], T]) -> T: ...

    async def events(
        self, *, after: int, limit: int, cursor: Cursor | None = None
    ) -> list[EventBatch]:
        """Batches behind a position, in order; for a cursor those on the disk for good."""
        if cursor is None:
            return await self._read(partial(_after, after, limit))
        now = self._store.clock.now()

        def look(db: sqlite3.Connection) -> tuple[bool, list[EventBatch]]:
            return _is_due(db, cursor, now), _after(after, limit, db)

        is_due, found = await self._read(look)
        if found or is_due:
            # A durable commit, after the look: what is handed on cannot be undone any more.
            await self._writer.call(partial(advance, cursor, 0, ()))
        return found

    async def span(self) -> Span:
        """Which positions are kept."""
        return await self._read(lambda db: Span(*db.execute(SQL.outbox_span).fetchone()))

    async def take_cursor(self, consumer: str, *, holder: str, lease: int) -> Cursor | None:
        """The right to read for a consumer."""
        return await self._writer.call(partial(_take, consumer, holder, lease))

    async def advance(
        self,
        cursor: Cursor,
        *,
        position: int,
        quarantined: Sequence[Put] = (),
        releases: bool = False,
    ) -> None:
        """Move a cursor on."""
        check(quarantined)

        def body(transaction: Transaction) -> None:
            advance(cursor, position, quarantined, transaction)
            if releases:
                scope = {"name": cursor.consumer, "token": cursor.token}
                transaction.db.execute(SQL.consumer_leave, scope)

        await self._writer.call(body)

    async def consumers(self) -> list[Consumer]:
        """Every consumer, by name."""
        scope = {"now": self._store.clock.now()}
        return await self._read(
            lambda db: [Consumer(*row) for row in db.execute(SQL.consumers, scope)]
        )

    async def delete_consumer(self, name: str) -> bool:
        """Forget a consumer."""
        order = signed(audit_record.consumer_forgotten(name))

        def body(transaction: Transaction) -> bool:
            was_there = transaction.db.execute(SQL.consumer_delete, {"name": name}).rowcount > 0
            if was_there:
                record_order(transaction, order)
            return was_there

        return await self._writer.call(body)


def _after(after: int, limit: int, db: sqlite3.Connection) -> list[EventBatch]:
    found = db.execute(SQL.outbox_after, {"after": after, "limit": limit})
    return [
        EventBatch(position, at, decoded_groups(position, body)) for position, at, body in found
    ]


def _take(name: str, holder: str, lease: int, transaction: Transaction) -> Cursor | None:
    db, now = transaction.db, transaction.now
    db.execute(SQL.consumer_add, {"name": name, "now": now})
    (gone_at,) = db.execute(SQL.consumer_gone_at, {"name": name}).fetchone()
    scope = {"name": name, "holder": holder, "lease": lease, "now": now}
    taken = db.execute(SQL.consumer_take, scope).fetchall()
    for token, position in taken:
        return Cursor(name, token, position, gone_at)
    return None


def _is_due(db: sqlite3.Connection, cursor: Cursor, now: int) -> bool:
    """Whether the lease is to be extended, or CursorLostError."""
    scope = {"name": cursor.consumer, "token": cursor.token, "now": now}
    row = db.execute(SQL.consumer_get, scope).fetchone()
    if row is None:
        raise CursorLostError(cursor.consumer)
    return bool(row[0])


def advance(
    cursor: Cursor, position: int, quarantined: Sequence[Put], transaction: Transaction
) -> None:
    """Move a cursor on, or CursorLostError."""
    db, now = transaction.db, transaction.now
    scope = {"name": cursor.consumer, "token": cursor.token, "position": position, "now": now}
    if db.execute(SQL.consumer_advance, scope).rowcount == 0:
        raise CursorLostError(cursor.consumer)
    for put in quarantined:
        store(transaction, put)


def is_muted(db: sqlite3.Connection) -> bool:
    """Whether progress events are left out."""
    return bool(db.execute(SQL.is_muted).fetchone()[0])
