"""The audit log: the chain of what was ordered and of what happened."""

from collections.abc import Sequence
from functools import partial

import msgspec

from longshore.core import audit
from longshore.core.audit import Chained, Entry, Kind, Mark, Pending, Standing
from longshore.core.audit_record import AuditRecord
from longshore.core.consumer import Cursor
from longshore.core.event import EventBatch
from longshore.engines.postgres.database import Connection
from longshore.engines.postgres.held_claims import Row
from longshore.engines.postgres.outbox import PostgresOutbox
from longshore.engines.postgres.sql import SQL
from longshore.errors import CursorLostError
from longshore.runtime.actor import actor
from longshore.runtime.decoding import RecordName, decode_each

__all__ = ["PostgresAudit", "cut"]

_BEFORE = {
    None: SQL.audit_before,
    Kind.ACTION: SQL.audit_actions_before,
    Kind.TRANSITIONS: SQL.audit_transitions_before,
}


class PostgresAudit(PostgresOutbox):
    """Keeps the chain. Whoever appends holds its end until the commit."""

    async def chain(
        self, *, limit: int, cursor: Cursor | None = None, after: int = 0
    ) -> Chained:
        """Chain what was ordered, and what the cursor's consumer has not read."""
        database = self._open
        batches = []
        if cursor is not None:
            batches = await self.events(after=after, limit=limit, cursor=cursor)
        if not batches and not await database.fetch(SQL.deeds, 1):
            return Chained(0, after, is_more=False)
        body = partial(_chain, database.now(), limit, cursor, batches)
        entries, deeds = await database.transact(body)
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
        statement = SQL.audit_after if before is None else _BEFORE[kind]
        place = after if before is None else before
        found: list[Entry] = []
        while True:
            asked = limit - len(found)
            rows = await self._open.fetch(statement, place, asked)
            found += decode_each(rows, _entry, _name)
            # Fewer would say that there are no more.
            if len(rows) < asked or len(found) == limit:
                return found
            place = rows[-1]["number"]

    async def audit_standing(self) -> Standing:
        """Where the log begins and ends."""
        rows = await self._open.fetch(SQL.audit_standing)
        return _standing(rows[0]) if rows else Standing()


async def cut(connection: Connection, *, now: int, before: int, limit: int) -> int:
    """Forget entries that are all old enough, from the beginning; how many those were."""
    row = await connection.fetchrow(SQL.audit_standing)
    if row is None:
        return 0
    scope = (before, limit)
    if await connection.fetchrow(SQL.audit_oldest, row["anchor"], *scope) is None:
        return 0
    # Look again once nobody else can append or cut.
    standing = _standing(await connection.fetchrow(SQL.audit_hold))
    found = await connection.fetchrow(SQL.audit_oldest, standing.anchor.number, *scope)
    if found is None:
        return 0
    anchor = Mark(found["number"], found["hash"])
    told = audit.cut(anchor, at=now, before=before, actor=actor())
    await _append(connection, Standing(anchor, standing.head), [told])
    ends = (standing.anchor.number, anchor.number)
    return await connection.fetchval(SQL.audit_cut, *ends)


async def _chain(
    clock: int | None,
    limit: int,
    cursor: Cursor | None,
    batches: Sequence[EventBatch],
    connection: Connection,
) -> tuple[int, int]:
    """How many entries were made, and how many of them of deeds."""
    if cursor is not None and batches:
        step = (clock, cursor.consumer, cursor.token, batches[-1].position)
        if not await connection.fetchval(SQL.consumer_advance, *step):
            raise CursorLostError(cursor.consumer)
    standing = _standing(await connection.fetchrow(SQL.audit_hold))
    found = [_pending(row) for row in await connection.fetch(SQL.deeds, limit)]
    entries = [*audit.of_records(found), *audit.of_batches(batches)]
    if found:
        await connection.execute(SQL.deeds_delete, [one.number for one in found])
    if entries:
        await _append(connection, standing, entries)
    return len(entries), len(found)


async def _append(connection: Connection, standing: Standing, entries: Sequence[Entry]) -> None:
    chained = audit.append(standing.head, entries)
    columns = zip(*map(msgspec.structs.astuple, chained), strict=True)
    await connection.execute(SQL.audit_add, *map(list, columns))
    anchor, head = standing.anchor, chained[-1]
    marks = (anchor.number, anchor.hash, head.number, head.hash)
    await connection.execute(SQL.audit_move, *marks)


def _pending(row: Row) -> Pending:
    names = ("action", "subject", "tenant", "facts", "actor")
    return Pending(row["number"], row["at"], AuditRecord(*(row[name] for name in names)))


def _standing(row: Row | None) -> Standing:
    assert row is not None
    return Standing(
        Mark(row["anchor"], row["anchor_hash"]), Mark(row["head"], row["head_hash"])
    )


def _name(row: Row) -> RecordName:
    return RecordName("audit entry", str(row["number"]), row["tenant"])


def _entry(row: Row) -> Entry:
    kind = Kind(row["kind"])
    where = (row["tenant"], row["actor"], row["action"], row["subject"])
    return Entry(row["number"], row["at"], kind, *where, row["body"], row["hash"])
