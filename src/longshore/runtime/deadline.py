"""Deadlines of calls, which do not count the time that setting a connection up takes.

A call to a store has little time: it must not outlive a lease. But the first one over a new
connection has to connect, log in and prepare its statements first, which are many round trips.
Where each takes long, a deadline that counted them would pass, the connection would be thrown
away, and the next try would begin where the last one did, for ever.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Literal, Self

__all__ = ["Deadline", "TurnLock", "uncounted"]

_NEVER = float("inf")
_current: ContextVar["Deadline | None"] = ContextVar("longshore_deadline", default=None)


class Deadline:
    """`async with Deadline(seconds)` raises TimeoutError in a block that takes longer.

    What is spent inside `uncounted` comes on top of `seconds`. With `at_most` the block ends
    after so many seconds in any case.
    """

    def __init__(self, seconds: float, *, at_most: float = _NEVER) -> None:
        self._seconds = seconds
        self._at_most = at_most
        self._pauses = 0
        self._paused_at = 0.0
        self._is_over = False

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        now = self._loop.time()
        self._due, self._last = now + self._seconds, now + self._at_most
        self._timeout = asyncio.timeout_at(_finite(min(self._due, self._last)))
        await self._timeout.__aenter__()
        self._outer = _current.get()
        self._token: Token[Deadline | None] = _current.set(self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Literal[False] | None:
        self._is_over = True
        _current.reset(self._token)
        await self._timeout.__aexit__(kind, error, trace)
        return None

    @property
    def is_here(self) -> bool:
        """It belongs to the event loop that runs now."""
        return self._loop is asyncio.get_running_loop()

    def pause(self) -> None:
        """Count no time until as many calls of `resume` have come."""
        if self._outer is not None:
            self._outer.pause()
        self._pauses += 1
        if self._pauses == 1:
            self._paused_at = self._loop.time()
            self._reschedule(self._last)

    def resume(self) -> None:
        """Go on counting. Each call belongs to one of `pause`."""
        if self._outer is not None:
            self._outer.resume()
        self._pauses -= 1
        if self._pauses == 0:
            self._due += self._loop.time() - self._paused_at
            self._reschedule(min(self._due, self._last))

    def _reschedule(self, when: float) -> None:
        # A task that the block left behind may go on after it.
        if not self._is_over and not self._timeout.expired():
            self._timeout.reschedule(_finite(when))


@contextmanager
def uncounted() -> Generator[None]:
    """Time in this block is not counted by the deadlines that the caller is under."""
    deadline = _current.get()
    # Whoever hands work to another loop takes its deadline along, which does not belong there.
    if deadline is None or not deadline.is_here:
        yield
        return
    deadline.pause()
    try:
        yield
    finally:
        deadline.resume()


class TurnLock(asyncio.Lock):
    """A lock for calls that have deadlines of their own: none counts the time of another."""

    async def acquire(self) -> Literal[True]:
        """Wait until it is free, and take it."""
        if not self.locked():
            return await super().acquire()
        with uncounted():
            return await super().acquire()


def _finite(when: float) -> float | None:
    return None if when == _NEVER else when
