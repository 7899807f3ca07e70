"""Read what happened, in an order that holds.

Transactions commit in another order than they take numbers, so the readers give the positions,
to what they see: nothing can appear before what someone has read.
"""

from collections.abc import Sequence

from longshore.core.event import EventBatch, Span, decode
from longshore.engines.postgres.database import Database
from longshore.engines.postgres.holding import Row
from longshore.engines.postgres.sql import SQL

__all__ = ["events", "published", "span", "unpublished"]

_AT_ONCE = 10_000
_MOST_ROUNDS = 1_000


async def events(database: Database, *, after: int, limit: int) -> list[EventBatch]:
    """Batches behind a position, in order."""
    return _batches(await database.fetch(SQL.outbox_after, after, limit))


async def span(database: Database) -> Span:
    """Which positions are kept, once all that was committed before has one."""
    ((low, high),) = await database.fetch(SQL.outbox_fresh)
    for _ in range(_MOST_ROUNDS):
        if low is None or low > high:
            break
        await database.fetch(SQL.outbox_stamp, _AT_ONCE)
        ((low, _newest),) = await database.fetch(SQL.outbox_fresh)
    (row,) = await database.fetch(SQL.outbox_span)
    return Span(row["first"], row["last"])


async def unpublished(database: Database, *, limit: int) -> list[EventBatch]:
    """The oldest batches that no relay has marked. From now on the store knows of a relay."""
    return _batches(await database.fetch(SQL.outbox_unpublished, limit))


async def published(database: Database, positions: Sequence[int]) -> None:
    """Mark batches as shipped."""
    if positions:
        await database.fetch(SQL.outbox_published, database.now(), list(positions))


def _batches(rows: Sequence[Row]) -> list[EventBatch]:
    return [EventBatch(row["place"], row["told_at"], decode(row["groups"])) for row in rows]
