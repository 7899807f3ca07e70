"""Wake-ups: one connection that listens, for everyone who waits in this process."""

import asyncio

from longshore.engines.postgres.connecting import CONNECT_SECONDS, Connection, Connector
from longshore.engines.postgres.faults import DRIVER_ERRORS

__all__ = ["CHANNEL", "POLL_SECONDS", "Waker"]

CHANNEL = "longshore"
POLL_SECONDS = 0.25
"""The longest wait while nothing would be heard."""


class Waker:
    """Lets sessions wait for work, whichever process brings it.

    What is missed while the connection is lost costs a poll: who waits is woken at the loss
    and when it listens again, and waits at most `POLL_SECONDS` in between.
    """

    def __init__(self, connector: Connector, *, listens: bool = True) -> None:
        self._connector = connector
        self._listens = listens
        self._waiters: dict[asyncio.Future[None], object] = {}
        """Who waits, and for whom."""
        self._connection: Connection | None = None
        self._opening: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def is_listening(self) -> bool:
        """A notification would be heard."""
        return self._connection is not None

    async def wait(self, seconds: float, *, owner: object = None) -> None:
        """Return at the next wake-up, after `seconds` at the latest."""
        loop = self._here()
        if self._listens and self._connection is None and self._opening is None:
            self._opening = loop.create_task(self._listen())
        longest = seconds if self.is_listening else min(seconds, POLL_SECONDS)
        waiter = loop.create_future()
        alarm = loop.call_later(longest, _end, waiter)
        self._waiters[waiter] = owner
        try:
            await waiter
        finally:
            alarm.cancel()
            del self._waiters[waiter]

    def wake(self, owner: object = None) -> None:
        """Wake all who wait here, or for one owner, without a detour through the server."""
        for waiter, whose in self._waiters.items():
            if owner is None or whose is owner:
                _end(waiter)

    async def close(self) -> None:
        """Stop listening. Safe to call twice; a later wait listens again."""
        self._here()
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.cancel()
            await asyncio.wait([opening])
        connection, self._connection = self._connection, None
        if connection is not None:
            self._connector.discard(connection)

    def _here(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # What another loop has left behind can neither be used nor closed from here.
            self._loop, self._connection, self._opening = loop, None, None
        return loop

    async def _listen(self) -> None:
        """One try; the next wait starts another, and the connector spaces them out."""
        connection: Connection | None = None
        try:
            connection = await self._connector.open(role="listener")
            async with asyncio.timeout(CONNECT_SECONDS):
                await connection.add_listener(CHANNEL, self._heard)
            connection.add_termination_listener(self._lost)
            self._connection = connection
        except BaseException as error:
            if connection is not None:
                self._connector.discard(connection, error)
            if not isinstance(error, DRIVER_ERRORS):
                raise
        finally:
            if self._opening is asyncio.current_task():
                self._opening = None
        self.wake()

    def _heard(self, *_: object) -> None:
        self.wake()

    def _lost(self, connection: object) -> None:
        if connection is self._connection:
            self._connection = None
            self.wake()


def _end(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
