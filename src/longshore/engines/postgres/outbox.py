"""Read what happened, in an order that holds: as a spectator, or for a consumer.

Transactions commit in another order than they take numbers, so the readers give the positions,
to what they see: nothing can appear before what someone has read.
"""

from collections.abc import Sequence

from longshore.contract.records import Put, check
from longshore.core import audit_record
from longshore.core.consumer import Consumer, Cursor
from longshore.core.event import EventBatch, Span
from longshore.engines.postgres.audit_records import record_order
from longshore.engines.postgres.database import Connection, Database
from longshore.engines.postgres.held_claims import Row
from longshore.engines.postgres.records import store
from longshore.engines.postgres.sql import SQL
from longshore.errors import CursorLostError
from longshore.runtime.actor import signed
from longshore.runtime.decoding import decoded_groups

__all__ = ["PostgresOutbox"]

_AT_ONCE = 10_000
_MOST_ROUNDS = 1_000


class PostgresOutbox:
    """Positions, and who has come how far."""

    @property
    def _open(self) -> Database: ...

    async def events(
        self, *, after: int, limit: int, cursor: Cursor | None = None
    ) -> list[EventBatch]:
        """Batches behind a position, in order. Whoever stamped them made them durable."""
        database = self._open
        if cursor is None:
            return _batches(await database.fetch(SQL.outbox_after, after, limit))
        whose = (database.now(), cursor.consumer, cursor.token)
        rows = await database.fetch(SQL.consumer_unread, *whose, after, limit)
        if rows and rows[0]["place"] is None:
            raise CursorLostError(cursor.consumer)
        return _batches(rows)

    async def span(self) -> Span:
        """Which positions are kept, once all that was committed before has one."""
        database = self._open
        ((low, high, _era),) = await database.fetch(SQL.outbox_fresh)
        for _ in range(_MOST_ROUNDS):
            if low is None or low > high:
                break
            await database.fetch(SQL.outbox_stamp, _AT_ONCE)
            ((low, _newest, _era),) = await database.fetch(SQL.outbox_fresh)
        (row,) = await database.fetch(SQL.outbox_span)
        return Span(row["first"], row["last"])

    async def take_cursor(self, consumer: str, *, holder: str, lease: int) -> Cursor | None:
        """The right to read for a consumer."""
        database = self._open
        rows = await database.fetch(SQL.consumer_take, database.now(), consumer, holder, lease)
        return Cursor(consumer, *rows[0].values()) if rows else None

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
        database = self._open
        step = (database.now(), cursor.consumer, cursor.token, position)

        async def body(connection: Connection) -> bool:
            is_held = await connection.fetchval(SQL.consumer_advance, *step)
            if is_held:
                now = await connection.fetchval(SQL.clock, database.now())
                for put in quarantined:
                    await store(connection, now, put)
                if releases:
                    await connection.execute(SQL.consumer_leave, cursor.consumer, cursor.token)
            return is_held

        if quarantined or releases:
            is_held = await database.transact(body)
        else:
            (row,) = await database.fetch(SQL.consumer_advance, *step)
            is_held = row["is_held"]
        if not is_held:
            raise CursorLostError(cursor.consumer)

    async def consumers(self) -> list[Consumer]:
        """Every consumer, by name."""
        database = self._open
        rows = await database.fetch(SQL.consumers, database.now())
        return [Consumer(*row.values()) for row in rows]

    async def delete_consumer(self, name: str) -> bool:
        """Forget a consumer."""
        database, order = self._open, signed(audit_record.consumer_forgotten(name))

        async def body(connection: Connection) -> bool:
            was_there = bool(await connection.fetch(SQL.consumer_delete, name))
            if was_there:
                await record_order(connection, database.now(), order)
            return was_there

        return await database.transact(body)


def _batches(rows: Sequence[Row]) -> list[EventBatch]:
    return [
        EventBatch(row["place"], row["told_at"], decoded_groups(row["place"], row["groups"]))
        for row in rows
    ]
