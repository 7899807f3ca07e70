"""Wake-ups: one connection that listens, for everyone who waits in this process."""

import asyncio
from typing import TypeVar

from longshore.engines.postgres.connecting import CONNECT_SECONDS, Connection, Connector
from longshore.engines.postgres.faults import DRIVER_ERRORS

__all__ = ["CHANNEL", "POLL_SECONDS", "Waker"]

T = TypeVar("T")

CHANNEL = "longshore"
POLL_SECONDS = 0.25
"""The longest wait while nothing would be heard."""


class Waker:
    """Lets sessions wait for work or for cancels, whichever process brings them.

    What is missed while the connection is lost costs a poll: who waits is woken at the loss
    and when it listens again, and waits at most `POLL_SECONDS` in between.
    """

    def __init__(self, connector: Connector, *, listens: bool = True) -> None:
        self._connector = connector
        self._listens = listens
        self._waiters: dict[asyncio.Future[None], object] = {}
        """Who waits for work, and for whom."""
        self._holders: dict[asyncio.Future[None], int] = {}
        """Who waits for a cancel, and under which token."""
        self._connection: Connection | None = None
        self._opening: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def is_listening(self) -> bool:
        """A notification would be heard."""
        return self._connection is not None

    async def wait(self, seconds: float, *, owner: object = None) -> None:
        """Return at the next wake-up, after `seconds` at the latest."""
        self._tune_in()
        longest = seconds if self.is_listening else min(seconds, POLL_SECONDS)
        await self._wait(longest, self._waiters, owner)

    async def wait_for_cancel(self, seconds: float, token: int) -> None:
        """Return when a session's jobs may have to be cancelled, or after `seconds`.

        Nothing is heard while nobody listens: then its exchanges have to tell.
        """
        self._tune_in()
        await self._wait(seconds, self._holders, token)

    def wake(self, owner: object = None) -> None:
        """Wake all who wait here, or for one owner, without a detour through the server."""
        for waiter, whose in self._waiters.items():
            if owner is None or whose is owner:
                _end(waiter)

    def _tune_in(self) -> None:
        loop = self._here()
        if self._listens and self._connection is None and self._opening is None:
            self._opening = loop.create_task(self._listen())

    async def _wait(
        self, seconds: float, waiters: dict[asyncio.Future[None], T], owner: T
    ) -> None:
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        alarm = loop.call_later(seconds, _end, waiter)
        waiters[waiter] = owner
        try:
            await waiter
        finally:
            alarm.cancel()
            del waiters[waiter]

    def _wake_all(self) -> None:
        """Whatever was missed, let everyone look."""
        for waiter in (*self._waiters, *self._holders):
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
        self._wake_all()

    def _heard(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        if not payload:
            self.wake()
        for waiter, token in self._holders.items():
            if payload == str(token):
                _end(waiter)

    def _lost(self, connection: object) -> None:
        if connection is self._connection:
            self._connection = None
            self._wake_all()


def _end(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
