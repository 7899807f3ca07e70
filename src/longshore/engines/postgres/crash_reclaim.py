"""What a session does when the server has restarted, crashed or was replaced by a standby.

A claim that did not wait for the disk may be lost although the session heard of it. Until each
such session has checked in, nobody claims, so the jobs are ready as they were before, and the
session claims them again. A standby that lags may lack more: the jobs themselves. The session
knows the ids of what it holds, and never takes another job for one of them.
"""

from collections.abc import Iterable

from longshore.contract import Reference
from longshore.core.job import JobId
from longshore.engines.postgres.database import Connection
from longshore.engines.postgres.held_claims import Book, HeldSpan
from longshore.engines.postgres.span_masks import (
    mask_between,
    mask_bytes,
    read_mask,
    stored_mask,
)
from longshore.engines.postgres.sql import SQL
from longshore.errors import LeaseLostError

__all__ = ["check_in", "gone"]


async def check_in(
    connection: Connection, token: int, clock: int | None, *, era: int, book: Book
) -> int:
    """The number of this era, in which the store has what the session's book has.

    `era` is the last one that the session knows, and `book` what it heard of. What has changed
    hands since (someone cancelled it), or is not there any more, is left out. Raises
    LeaseLostError.
    """
    row = await connection.fetchrow(SQL.check_in, token, clock, era)
    if row is None:
        raise LeaseLostError(token)
    if row["era"] != era:
        last: int = row["last"] or 0
        lost = [span for span in book.spans.values() if span.number > last]
        await _claim_again(connection, token, lost)
    return row["era"]


async def _claim_again(connection: Connection, token: int, lost: Iterable[HeldSpan]) -> None:
    for span in lost:
        ids = await connection.fetchval(SQL.segment_ids, span.segment, span.lo, span.hi)
        found = 0
        if ids == span.ids:
            wanted = read_mask(span.stored_mask, span.lo, span.hi)
            found = await _take(connection, span, wanted)
        if found:
            await connection.execute(
                SQL.claim_add, token, span.number, span.part, span.segment, span.lo, span.hi,
                found.bit_count(), span.weight, stored_mask(found, span.lo, span.hi), span.rank,
                span.run_at, span.delivery, span.attempt, span.failures, span.crashes,
                span.lapses,
            )  # fmt: skip
        await connection.execute(SQL.exchanged_add, token, span.number)


async def _take(connection: Connection, span: HeldSpan, wanted: int) -> int:
    """Take these jobs of a segment out of its ready spans: those that were there."""
    found = 0
    for row in await connection.fetch(SQL.ready_of, span.segment, span.delivery - 1):
        lo, hi = row["lo"], row["hi"]
        there = read_mask(row["mask"], lo, hi) & mask_between(lo, hi)
        if there & wanted:
            rest = there & ~wanted
            mask = mask_bytes(rest, hi) if rest else None
            await connection.execute(SQL.take_ready, row["span"], mask, rest.bit_count())
            found |= there & wanted
    return found


def gone(before: Book, after: Book) -> set[Reference]:
    """References that named jobs before, and do not name the same jobs any more."""
    return {
        (handle, span.delivery)
        for handle, span in before.held.items()
        if _job(after, handle, span.delivery) != before.job_id(handle)
    }


def _job(book: Book, handle: int, delivery: int) -> JobId | None:
    span = book.held.get(handle)
    return book.job_id(handle) if span is not None and span.delivery == delivery else None
