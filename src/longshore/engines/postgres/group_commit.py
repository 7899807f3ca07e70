"""When a commit that callers share is to begin."""

import asyncio
from collections.abc import Callable

__all__ = ["CROWD", "Gathering"]

_GATHER = 0.004
"""Seconds from one commit to the next, while more callers may come: a commit costs both sides
as much as several jobs do."""
CROWD = 64
"""Callers that are worth a commit, though others are expected."""
_WINDOW = 0.5
"""Seconds for which it is remembered how many callers there were at once."""


class Gathering:
    """When the next commit is to begin: with all who are expected, or after a short while.

    Callers that each wait for their answer before they call again are all there at once, and
    never wait for others. Those of a service come when they like: then a commit carries a few.
    """

    __slots__ = ("_before", "_begins", "_go", "_is_due", "_lately", "_until", "_wait")

    def __init__(self, go: Callable[[], None]) -> None:
        self._go = go
        self._is_due = False
        self._wait: asyncio.TimerHandle | None = None
        self._begins = 0.0
        """The earliest time for a commit that others may still join, on the loop's clock."""
        self._lately = self._before = 0
        """The most callers at once, in this window and in the one before."""
        self._until = 0.0

    def plan(self, loop: asyncio.AbstractEventLoop, waiting: int, under_way: int) -> None:
        """Callers wait for a commit, and there is room; the commits of others are under way."""
        callers = waiting + under_way
        if callers > self._lately:
            self._lately = callers
        if self._is_due:
            return
        now = loop.time()
        expected = max(self._before, self._lately)
        # With half of them in each commit, one is made while the store works on the other.
        is_half = waiting >= CROWD and 2 * waiting >= expected
        if is_half or callers >= expected or now >= self._begins:
            self._is_due = True
            # Whoever calls in the same turn of the loop travels along.
            loop.call_soon(self._commit, now)
        elif self._wait is None:
            self._wait = loop.call_at(self._begins, self._commit, self._begins)

    def _commit(self, now: float) -> None:
        self._is_due = False
        if self._wait is not None:
            self._wait.cancel()
            self._wait = None
        self._begins = now + _GATHER
        if now >= self._until:
            self._before, self._lately = self._lately, 0
            self._until = now + _WINDOW
        self._go()
