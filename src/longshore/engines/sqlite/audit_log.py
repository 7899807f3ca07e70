"""The audit log: the chain of what was ordered and of what happened."""

import sqlite3
from collections.abc import Sequence
from functools import partial

import msgspec

from longshore.core import audit
from longshore.core.audit import GENESIS, Chained, Entry, Kind, Mark, Pending, Standing
from longshore.core.audit_record import AuditRecord
from longshore.core.consumer import Cursor
from longshore.core.event import EventBatch
from longshore.engines.sqlite.outbox import SqliteOutbox, advance
from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.transaction import Transaction
from longshore.runtime.decoding import RecordName, decode_each

__all__ = ["SqliteAudit", "cut"]

_Row = tuple[int, int, str, str, str, str, str, bytes, bytes]


class SqliteAudit(SqliteOutbox):
    """Keeps the chain. One writer at a time: no entry can get between two others."""

    async def chain(
        self, *, limit: int, cursor: Cursor | None = None, after: int = 0
    ) -> Chained:
        """Chain what was ordered, and what the cursor's consumer has not read."""
        batches = []
        if cursor is not None:
            batches = await self.events(after=after, limit=limit, cursor=cursor)
        if not batches and not await self._read(lambda db: _pending(db, 1)):
            return Chained(0, after, is_more=False)
        entries, deeds = await self._writer.call(partial(_chain, limit, cursor, batches))
        position = batches[-1].position if batches else after
        return Chained(entries, position, is_more=limit in (deeds, len(batches)))

    async def audit_entries(
        self,
        *,
        limit: int,
        after: int | None = None,
        before: int | None = None,
        kind: Kind | None = None,
    ) -> list[Entry]:
        """Entries behind a number, oldest first, or before one, newest first."""
        audit.check_range(after, before, kind)
        if before is None:
            return await self._read(partial(_entries, SQL.audit_after, after, limit, None))
        statement = SQL.audit_before if kind is None else SQL.audit_before_of_kind
        return await self._read(partial(_entries, statement, before, limit, kind))

    async def audit_standing(self) -> Standing:
        """Where the log begins and ends."""
        return await self._read(_standing)


def cut(transaction: Transaction, actor: str, *, before: int, limit: int) -> int:
    """Forget entries that are all old enough, from the beginning; how many those were."""
    db, standing = transaction.db, _standing(transaction.db)
    scope = {"anchor": standing.anchor.number, "before": before, "limit": limit}
    row = db.execute(SQL.audit_oldest, scope).fetchone()
    if row is None:
        return 0
    anchor = Mark(*row)
    told = audit.cut(anchor, at=transaction.now, before=before, actor=actor)
    _append(db, Standing(anchor, standing.head), [told])
    return db.execute(SQL.audit_cut, {"number": anchor.number}).rowcount


def _chain(
    limit: int, cursor: Cursor | None, batches: Sequence[EventBatch], transaction: Transaction
) -> tuple[int, int]:
    """How many entries were made, and how many of them of deeds."""
    db = transaction.db
    found = _pending(db, limit)
    entries = [*audit.of_records(found), *audit.of_batches(batches)]
    if cursor is not None and batches:
        advance(cursor, batches[-1].position, (), transaction)
    if found:
        db.execute(SQL.deeds_delete, {"number": found[-1].number})
    if entries:
        _append(db, _standing(db), entries)
    return len(entries), len(found)


def _append(db: sqlite3.Connection, standing: Standing, entries: Sequence[Entry]) -> None:
    chained = audit.append(standing.head, entries)
    db.executemany(SQL.audit_add, [msgspec.structs.asdict(one) for one in chained])
    scope = {
        "anchor": standing.anchor.number,
        "anchor_hash": standing.anchor.hash,
        "head": chained[-1].number,
        "head_hash": chained[-1].hash,
    }
    db.execute(SQL.audit_move, scope)


def _pending(db: sqlite3.Connection, limit: int) -> list[Pending]:
    rows = db.execute(SQL.deeds, {"limit": limit})
    return [Pending(number, at, AuditRecord(*facts)) for number, at, *facts in rows]


def _standing(db: sqlite3.Connection) -> Standing:
    row = db.execute(SQL.audit_standing).fetchone()
    if row is None:
        return Standing(GENESIS, GENESIS)
    return Standing(Mark(*row[:2]), Mark(*row[2:]))


def _entries(
    statement: str, place: int | None, limit: int, kind: Kind | None, db: sqlite3.Connection
) -> list[Entry]:
    found: list[Entry] = []
    while True:
        asked = limit - len(found)
        rows = db.execute(statement, {"place": place, "limit": asked, "kind": kind}).fetchall()
        found += decode_each(rows, _entry, _name)
        # Fewer would say that there are no more.
        if len(rows) < asked or len(found) == limit:
            return found
        place = rows[-1][0]


def _name(row: _Row) -> RecordName:
    return RecordName("audit entry", str(row[0]), row[3])


def _entry(row: _Row) -> Entry:
    number, at, kind, tenant, actor, action, subject, body, digest = row
    return Entry(number, at, Kind(kind), tenant, actor, action, subject, body, digest)
