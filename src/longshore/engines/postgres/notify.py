"""Wake-ups: one connection that listens, for everyone who waits in this process."""

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from longshore.engines.postgres.connection import (
    CONNECT_SECONDS,
    Connection,
    Connector,
)
from longshore.engines.postgres.faults import DRIVER_ERRORS

__all__ = ["CHANNEL", "POLL_SECONDS", "Vigil", "Waker"]

T = TypeVar("T")

CHANNEL = "longshore"
POLL_SECONDS = 0.25
"""The longest wait while nothing would be heard."""
PULSE_SECONDS = 5.0
"""How often the listener is asked whether it is still there: it never sends by itself, and
would miss everything for ever after a loss of which nobody told it."""


class Waker:
    """Lets sessions wait for work or for cancels, whichever process brings them.

    What is missed while the connection is lost costs a poll: who waits is woken at the loss
    and when it listens again, and waits at most `POLL_SECONDS` in between.
    """

    def __init__(self, connector: Connector, *, listens: bool = True) -> None:
        self._connector = connector
        self.listens = listens
        """Otherwise everyone here polls."""
        self._waiters: dict[asyncio.Future[bool], object] = {}
        """Who waits for work, and for whom."""
        self._holders: dict[asyncio.Future[bool], int] = {}
        """Who waits for a cancel, and under which token."""
        self._connection: Connection | None = None
        self._opening: asyncio.Task[None] | None = None
        self._pulse: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._rings = 0

    @property
    def is_listening(self) -> bool:
        """A notification would be heard."""
        return self._connection is not None

    async def wait(self, seconds: float, *, owner: object = None) -> None:
        """Return at the next wake-up, after `seconds` at the latest."""
        self._tune_in()
        longest = seconds if self.is_listening else min(seconds, POLL_SECONDS)
        waiter = asyncio.get_running_loop().create_future()
        await self._wait(longest, self._waiters, owner, waiter)

    def mark(self) -> int:
        """Now, for `wait_since`, which misses nothing from then on."""
        return self._rings if self.is_listening else -1

    async def wait_since(
        self, mark: int, seconds: float, owner: object, waiter: "asyncio.Future[bool]"
    ) -> bool:
        """Whether there was a wake-up since the mark, or within `seconds`.

        Whoever ends the waiter before, by True or False, decides. While nothing would be heard
        each poll counts as a wake-up.
        """
        self._tune_in()
        if not self.is_listening:
            is_poll = seconds > POLL_SECONDS
            longest = min(seconds, POLL_SECONDS)
            return await self._wait(longest, self._waiters, owner, waiter, is_poll)
        if mark != self._rings:
            return True
        return await self._wait(seconds, self._waiters, owner, waiter)

    async def wait_for_cancel(self, seconds: float, token: int) -> None:
        """Return when a session's jobs may have to be cancelled, or after `seconds`.

        Nothing is heard while nobody listens: then its exchanges have to tell.
        """
        self._tune_in()
        waiter = asyncio.get_running_loop().create_future()
        await self._wait(seconds, self._holders, token, waiter)

    def wake(self, owner: object = None) -> None:
        """Wake all who wait here, or for one owner, without a detour through the server."""
        self._rings += 1
        for waiter, whose in self._waiters.items():
            if owner is None or whose is owner:
                _end(waiter)

    def _tune_in(self) -> None:
        loop = self._here()
        if self.listens and self._connection is None and self._opening is None:
            self._opening = loop.create_task(self._listen())

    async def _wait(
        self,
        seconds: float,
        waiters: dict[asyncio.Future[bool], T],
        owner: T,
        waiter: "asyncio.Future[bool]",
        at_the_end: bool = False,
    ) -> bool:
        alarm = asyncio.get_running_loop().call_later(seconds, _end, waiter, at_the_end)
        waiters[waiter] = owner
        try:
            return await waiter
        finally:
            alarm.cancel()
            del waiters[waiter]

    def _wake_all(self) -> None:
        """Whatever was missed, let everyone look."""
        self._rings += 1
        for waiter in (*self._waiters, *self._holders):
            _end(waiter)

    async def close(self) -> None:
        """Stop listening. Safe to call twice; a later wait listens again."""
        self._here()
        tasks = [task for task in (self._opening, self._pulse) if task is not None]
        self._opening = self._pulse = None
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        connection, self._connection = self._connection, None
        if connection is not None:
            self._connector.discard(connection)

    def _here(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # What another loop has left behind can neither be used nor closed from here.
            self._loop, self._connection = loop, None
            self._opening = self._pulse = None
        return loop

    async def _listen(self) -> None:
        """One try; the next wait starts another, and the connector spaces them out."""
        connection: Connection | None = None
        try:
            connection = await self._connector.open(role="listener")
            async with asyncio.timeout(CONNECT_SECONDS + self._connector.doubt_seconds):
                await connection.add_listener(CHANNEL, self._heard)
            connection.add_termination_listener(self._lost)
            self._connection = connection
            self._pulse = asyncio.create_task(_pulse(connection, self._connector))
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


async def _pulse(connection: Connection, connector: Connector) -> None:
    """Ends the connection when it does not answer; whoever waits hears of it then."""
    while not connection.is_closed():
        await asyncio.sleep(PULSE_SECONDS)
        try:
            await connection.execute("select 1", timeout=connector.doubt_seconds)
        except DRIVER_ERRORS:
            connection.terminate()


class Vigil:
    """A session's wait for work that misses none, however late it begins."""

    def __init__(self, waker: Waker, owner: object) -> None:
        self._waker = waker
        self._owner = owner
        self._mark = -1
        """When the session last began to look for work, by the waker's count."""
        self._is_sated = True
        """Its last look, if there was any, found some: only who found none is told of more."""
        self._waiter: asyncio.Future[bool] | None = None
        self.is_rung = False
        """The session looks because something rang, which is most likely all there is."""

    def look(self) -> None:
        """The session looks for work now."""
        self._mark = self._waker.mark()

    def found(self, jobs: Sequence[object]) -> None:
        """What it found."""
        self._is_sated = bool(jobs)

    async def keep(self, seconds: float) -> bool:
        """Whether work may have arrived since the last look, or arrives within `seconds`."""
        self._waiter = asyncio.get_running_loop().create_future()
        mark = -1 if self._is_sated else self._mark
        return await self._waker.wait_since(mark, seconds, self._owner, self._waiter)

    def end(self) -> None:
        """Nobody waits any longer, unless something has rung."""
        if self._waiter is not None:
            _end(self._waiter, is_rung=False)


def _end(waiter: asyncio.Future[bool], is_rung: bool = True) -> None:
    if not waiter.done():
        waiter.set_result(is_rung)
