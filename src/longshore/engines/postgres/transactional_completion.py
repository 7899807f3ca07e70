"""Transactions of handlers: what a handler writes and its job's success commit together.

The transaction ends with the fence and a row of the session's journal. From its commit on the
job has succeeded, for all who look; what the worker settles afterwards only tidies up.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from asyncpg.transaction import Transaction

from longshore.contract import Completion, Reference
from longshore.core import event
from longshore.core.event import Group, Name
from longshore.engines.postgres.completion_records import Completions, Landed
from longshore.engines.postgres.database import Connection, Database
from longshore.engines.postgres.faults import DRIVER_ERRORS, is_loss, translated
from longshore.engines.postgres.held_claims import Book, HeldSpan
from longshore.engines.postgres.span_masks import ordinal
from longshore.engines.postgres.sql import SQL
from longshore.errors import (
    EngineBusyError,
    EngineUnavailableError,
    LeaseLostError,
    LongshoreError,
)
from longshore.runtime.clock import SECOND

__all__ = ["Completer"]

T = TypeVar("T")

_PAUSE = 0.05
"""Seconds between two questions to a server that is away."""
_ROLLBACK_SECONDS = 5.0


class Completer:
    """Opens and commits the transactions of one session's handlers.

    As many at a time as the pool has connections; the next handler waits for one to end.
    """

    def __init__(
        self,
        database: Database,
        completions: Completions,
        *,
        token: int,
        lease: int,
        read: Callable[[int, int | None], Awaitable[tuple[int, Book]]],
    ) -> None:
        """`read` gives the session's book, in which the start of a job is told or is not."""
        self._database = database
        self._completions = completions
        self._token = token
        self._patience = lease / SECOND
        self._read = read
        self._rooms = asyncio.Semaphore(database.size)

    @asynccontextmanager
    async def transaction(
        self, reference: Reference, started_at: int
    ) -> AsyncGenerator[Completion]:
        """A transaction for the block; at its end the job is completed and all is committed.

        An error in the block rolls everything back. A cancellation that comes during the
        commit is raised when its outcome is known.
        """
        async with self._rooms, self._database.borrowed() as connection:
            with translated(self._database.connector.place):
                transaction = connection.transaction(isolation="read_committed")
                await transaction.start()
                await connection.execute(SQL.lend)
            completion = Completion(connection)
            try:
                yield completion
            except Exception:
                await _roll_back(connection, transaction)
                raise
            await _uninterrupted(self._finish(reference, started_at, completion, transaction))

    async def _finish(
        self,
        reference: Reference,
        started_at: int,
        completion: Completion,
        transaction: Transaction,
    ) -> None:
        connection: Connection = completion.connection
        if not connection.is_in_transaction():
            # The driver thinks otherwise, so it is of no further use.
            connection.terminate()
            raise LongshoreError("the handler ended its transaction; the block does that")
        try:
            era: int | None = None
            landed: Landed | None = None
            while landed is None:
                era, book = await self._read(reference[0], era)
                span = self._span(book, reference)
                with self._completions.completing(reference):
                    landed = await self._complete(
                        (era, book, span), reference, started_at, completion
                    )
                    if landed is not None:
                        await self._commit(transaction, landed.entry)
                        completion.is_committed = True
                        self._completions.land(landed)
        except Exception:
            await _roll_back(connection, transaction)
            raise

    def _span(self, book: Book, reference: Reference) -> HeldSpan:
        span = book.held.get(reference[0])
        if span is None or span.delivery != reference[1] or reference in self._completions:
            raise LeaseLostError(self._token)
        return span

    async def _complete(
        self,
        known: tuple[int, Book, HeldSpan],
        reference: Reference,
        started_at: int,
        completion: Completion,
    ) -> Landed | None:
        """How it ended; None when the server has crashed and the session shall look again."""
        era, book, span = known
        entry = book.reserve()
        with translated(self._database.connector.place):
            async with asyncio.timeout(self._patience):
                now: int | None = await completion.connection.fetchval(
                    SQL.complete,
                    self._token,
                    self._database.now(),
                    entry,
                    *reference,
                    started_at,
                    completion.result,
                    _told(span, ordinal(reference[0])),
                    era,
                )
        if now is None:
            raise LeaseLostError(self._token)
        if not now:
            return None
        return Landed(*reference, entry, min(started_at, now), now)

    async def _commit(self, transaction: Transaction, entry: int) -> None:
        place = self._database.connector.place
        try:
            with translated(place):
                async with asyncio.timeout(self._patience):
                    await transaction.commit()
        except asyncio.CancelledError:
            self._completions.is_adrift = True
            raise
        except LongshoreError as error:
            cause = error.__cause__
            is_unknown = isinstance(cause, TimeoutError) or (
                cause is not None and is_loss(cause)
            )
            if not is_unknown or not await self._is_committed(entry):
                raise

    async def _is_committed(self, entry: int) -> bool:
        """The truth about a commit whose answer was lost, or LeaseLostError."""

        async def look(connection: Connection) -> bool:
            if await connection.fetchval(SQL.session_await, self._token) is None:
                raise LeaseLostError(self._token)
            return bool(await connection.fetchval(SQL.completed, self._token, entry))

        self._completions.is_adrift = True
        try:
            async with asyncio.timeout(self._patience):
                while True:
                    try:
                        answer = await self._database.transact(look)
                    except (EngineBusyError, EngineUnavailableError):
                        await asyncio.sleep(_PAUSE)
                    else:
                        self._completions.is_adrift = False
                        return answer
        except TimeoutError:
            raise LeaseLostError(self._token) from None


def _told(span: HeldSpan, place: int) -> bytes:
    names = [Name.SUCCEEDED] if place in span.begun else [Name.STARTED, Name.SUCCEEDED]
    where = (span.queue, span.type_of(place), span.tenant_of(place), span.id(place))
    trace = span.trace_of(place)
    return event.encode([Group(name, *where, trace=trace) for name in names])


async def _roll_back(connection: Connection, transaction: Transaction) -> None:
    """As far as that is possible; a connection that stays in a transaction is closed."""
    with suppress(*DRIVER_ERRORS):
        async with asyncio.timeout(_ROLLBACK_SECONDS):
            if connection.is_in_transaction():
                await transaction.rollback()


async def _uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """Let the work end, which it does in time; only then heed a cancellation."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # or the loop would report that nobody asked for it
        raise cancelled
    return task.result()
