"""Calls to the server: pooled ones, transactions, and lanes with a connection of their own.

Every call ends within its deadline, in an answer or in a LongshoreError. A connection about
which there is any doubt is not used again: one whose call was cancelled, took too long or lost
its server, be it in silence (see `doubting`). What such a call did is unknown to its caller,
who may send it again.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import asyncpg

from longshore.engines.postgres.connection import CALL_SECONDS, Connection, Connector, Record
from longshore.engines.postgres.faults import (
    AGAIN,
    DRIVER_ERRORS,
    is_unsent,
    translated,
)
from longshore.engines.postgres.liveness import doubted
from longshore.engines.postgres.notify import Waker
from longshore.engines.postgres.pool import Pool
from longshore.engines.postgres.progress_events import Muting
from longshore.engines.postgres.transaction import fetch_on, transact_on
from longshore.runtime.clock import Clock
from longshore.runtime.deadline import TurnLock, uncounted

__all__ = ["Connection", "Database", "Lane", "Record"]

T = TypeVar("T")

_TRIES = 5
_FIRST_PAUSE = 0.01
_RESET_SECONDS = 2.0


class Database:
    """One PostgreSQL database. Nothing is touched before the first call."""

    def __init__(
        self,
        dsn: str,
        *,
        clock: Clock | None = None,
        size: int = 8,
        listens: bool = True,
        statement_cache: bool = True,
        call_seconds: float = CALL_SECONDS,
    ) -> None:
        self.connector = Connector(dsn, is_pooled=not statement_cache)
        self.waker = Waker(self.connector, listens=listens)
        self.muting = Muting(self.fetch)
        self._clock = clock
        self.size = size
        """Connections of a pool."""
        self._seconds = call_seconds
        self._pools: dict[asyncio.AbstractEventLoop, _Pools] = {}

    def now(self) -> int | None:
        """What statements take as the time; None lets the server's clock decide."""
        return None if self._clock is None else self._clock.now()

    async def fetch(self, statement: str, *args: object) -> list[Record]:
        """The rows of one statement, which is a transaction of its own."""

        async def once() -> list[Record]:
            async with self._pool().connection() as connection:
                with doubted(self.connector, connection):
                    return await fetch_on(self.connector, connection, statement, *args)

        return await _bounded(self.connector, once, self._seconds)

    async def transact(self, body: Callable[[Connection], Awaitable[T]]) -> T:
        """What `body` returns, in one READ COMMITTED transaction.

        The body runs again from its start after a serialization failure or a deadlock, so it
        may change nothing but the database.
        """

        async def once() -> T:
            async with self._pool().connection() as connection:
                with doubted(self.connector, connection):
                    return await transact_on(self.connector, connection, body)

        return await _bounded(self.connector, once, self._seconds)

    @asynccontextmanager
    async def borrowed(self) -> AsyncGenerator[Connection]:
        """A plain connection, for a block with rules of its own about time and errors.

        There are as many of them as pooled ones, besides those. What the block sets for a
        session is set back.
        """
        pool = self._pools_here().lent
        connection = await _bounded(self.connector, pool.take, self._seconds)
        async with pool.returning(connection):
            try:
                yield connection
            except Exception:
                await self._clean(connection)
                raise
            await self._clean(connection)

    def lane(self) -> "Lane":
        """Room for calls that shall not wait for the pool. Whoever asked for it closes it."""
        return Lane(self.connector, self._seconds)

    async def close(self) -> None:
        """Let go of every pooled connection. Safe to call twice; a later call opens anew."""
        await self.waker.close()
        pools = self._pools.pop(asyncio.get_running_loop(), None)
        if pools is not None:
            pools.own.close()
            pools.lent.close()
        await self.connector.close()

    def _pool(self) -> Pool:
        return self._pools_here().own

    def _pools_here(self) -> "_Pools":
        loop = asyncio.get_running_loop()
        pools = self._pools.get(loop)
        if pools is None:
            # What a closed loop has left behind can neither be used nor closed.
            self._pools = {
                one: kept for one, kept in self._pools.items() if not one.is_closed()
            }
            pools = self._pools[loop] = _Pools(self.connector, self.size)
        return pools

    async def _clean(self, connection: Connection) -> None:
        if self.connector.is_pooled or connection.is_closed() or connection.is_in_transaction():
            return
        try:
            await connection.reset(timeout=_RESET_SECONDS)
        except DRIVER_ERRORS:
            connection.terminate()


class _Pools:
    """The pools of one event loop: for the engine's own calls, and for blocks of others."""

    def __init__(self, connector: Connector, size: int) -> None:
        self.own = Pool(connector, size)
        self.lent = Pool(connector, size, is_plain=True)


class Lane:
    """A connection of its own, opened at the first call or ahead of it, and again after a loss.

    One call at a time: the others wait. Belongs to the event loop of its first call.
    """

    def __init__(self, connector: Connector, seconds: float) -> None:
        self._connector = connector
        self._seconds = seconds
        self._turn = TurnLock()
        self._connection: Connection | None = None
        self._opening: asyncio.Task[Connection] | None = None

    def open_ahead(self, statement: str) -> None:
        """Begin to connect and to prepare the statement. The first call waits for that."""
        self._opening = asyncio.create_task(self._open_and_prepare(statement))
        self._opening.add_done_callback(_opened)

    async def fetch(self, statement: str, *args: object) -> list[Record]:
        """The rows of one statement, which is a transaction of its own."""
        return await self._call(
            lambda connection: fetch_on(self._connector, connection, statement, *args)
        )

    async def transact(self, body: Callable[[Connection], Awaitable[T]]) -> T:
        """Like `Database.transact`, on this connection."""
        return await self._call(
            lambda connection: transact_on(self._connector, connection, body)
        )

    async def close(self) -> None:
        """Let the call in flight end, then the connection. Safe to call twice."""
        async with self._turn:
            self.drop()
        await self._connector.close()

    def drop(self) -> None:
        """Let go of the connection, or of the try to get one, without waiting for anything."""
        opening, self._opening = self._opening, None
        connection, self._connection = self._connection, None
        if opening is not None:
            opening.cancel()
            connection = _opened(opening)
        if connection is not None:
            self._connector.discard(connection)

    async def _call(self, call: Callable[[Connection], Awaitable[T]]) -> T:
        async def once() -> T:
            async with self._turn:
                connection = await self._open()
                try:
                    with doubted(self._connector, connection):
                        return await call(connection)
                except BaseException as error:
                    if not self._connector.is_sound(connection, error):
                        self._connection = None
                        self._connector.discard(connection, error)
                    raise

        return await _bounded(self._connector, once, self._seconds)

    async def _open(self) -> Connection:
        if self._opening is not None:
            with uncounted():
                # Whoever is cancelled meanwhile leaves it to the next call.
                await asyncio.wait([self._opening])
            opening, self._opening = self._opening, None
            self._connection = _opened(opening)
        if self._connection is None or self._connection.is_closed():
            self._connection = None
            self._connection = await self._connector.open(role="lane")
        return self._connection

    async def _open_and_prepare(self, statement: str) -> Connection:
        connection = await self._connector.open(role="lane")
        if not self._connector.is_pooled:
            try:
                with doubted(self._connector, connection):
                    await connection.remember(statement)
            except BaseException as error:
                self._connector.discard(connection, error)
                raise
        return connection


def _opened(opening: "asyncio.Task[Connection]") -> Connection | None:
    """The connection, if there is one. A failure is not lost: the next try meets it too."""
    if not opening.done() or opening.cancelled() or opening.exception() is not None:
        return None
    return opening.result()


async def _bounded(connector: Connector, once: Callable[[], Awaitable[T]], seconds: float) -> T:
    """What `once` returns within `seconds`, if need be at its fifth try."""
    with translated(connector.place):
        async with asyncio.timeout(seconds):
            for tries in range(1, _TRIES):
                try:
                    return await once()
                except (*AGAIN, asyncpg.InternalClientError) as error:
                    if not isinstance(error, AGAIN) and not is_unsent(error):
                        raise
                    await asyncio.sleep(connector.jitter(_FIRST_PAUSE * 2**tries))
            return await once()
