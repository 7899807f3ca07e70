"""Whether progress events are left out of the outbox."""

import time
from collections.abc import Awaitable, Callable, Sequence

from longshore.core.job import Report
from longshore.engines.postgres.sql import SQL

__all__ = ["Muting"]

_EVERY = 5.0
"""Seconds for which an answer is good. Only who has progress to tell asks at all."""


class Muting:
    """What the store's flag says, or said a moment ago."""

    def __init__(self, fetch: Callable[..., Awaitable[Sequence[object]]]) -> None:
        """`fetch` is for the rows of a statement."""
        self._fetch = fetch
        self._ask_at = 0.0
        self._is_on = False

    async def lets_through(self, progress: Sequence[Report]) -> bool:
        """Whether this is to be told, as of some seconds ago."""
        if progress and time.monotonic() >= self._ask_at:
            self._is_on = bool(await self._fetch(SQL.is_muted))
            self._ask_at = time.monotonic() + _EVERY
        return not self._is_on

    def forget(self) -> None:
        """Ask again, since this process changed a flag."""
        self._ask_at = 0.0
