"""A few connections that take turns. Only sound ones come back."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from longshore.engines.postgres.connection import Connection, Connector
from longshore.engines.postgres.faults import is_loss

__all__ = ["Pool"]


class Pool:
    """At most `size` connections of one event loop, opened when they are needed."""

    def __init__(self, connector: Connector, size: int, *, is_plain: bool = False) -> None:
        self._connector = connector
        self._is_plain = is_plain
        self._room = asyncio.Semaphore(size)
        self._idle: list[Connection] = []
        self._is_closed = False

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Connection]:
        """One that nobody else uses meanwhile. Raises the driver's errors."""
        connection = await self.take()
        async with self.returning(connection):
            yield connection

    async def take(self) -> Connection:
        """Belongs to the caller, until `returning` ends."""
        await self._room.acquire()
        try:
            while self._idle:
                connection = self._idle.pop()
                if not connection.is_closed():
                    return connection
            role = "handler" if self._is_plain else ""
            return await self._connector.open(role=role, is_plain=self._is_plain)
        except BaseException:
            self._room.release()
            raise

    @asynccontextmanager
    async def returning(self, connection: Connection) -> AsyncGenerator[None]:
        """Takes the connection back at the end of the block, or closes it."""
        try:
            yield
        except BaseException as error:
            self._give_back(connection, error)
            raise
        else:
            self._give_back(connection)

    def close(self) -> None:
        """Let go of what is idle now, and of the others when they come back."""
        self._is_closed = True
        self._forget_idle()

    def _give_back(self, connection: Connection, error: BaseException | None = None) -> None:
        self._room.release()
        if error is not None and is_loss(error):
            # The server has gone, so those that lie here have gone with it.
            self._forget_idle()
        if not self._is_closed and self._connector.is_sound(connection, error):
            self._idle.append(connection)
        else:
            self._connector.discard(connection, error)

    def _forget_idle(self) -> None:
        while self._idle:
            self._connector.discard(self._idle.pop())
