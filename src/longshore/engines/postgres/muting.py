"""Whether progress is left out of the outbox."""

import time
from collections.abc import Awaitable, Callable, Sequence

from longshore.core.job import Report
from longshore.engines.postgres.sql import SQL

__all__ = ["Muting"]

_EVERY = 5.0
"""Seconds for which an answer is good. Only who has progress to tell asks at all."""
_MUTED = "outbox.muted"
"""The fact that it is, and since when."""


class Muting:
    """What the store says of it, or said a moment ago."""

    def __init__(self, fetch: Callable[..., Awaitable[Sequence[object]]]) -> None:
        """`fetch` is for the rows of a statement."""
        self._fetch = fetch
        self._ask_at = 0.0
        self._is_on = False

    async def lets_through(self, progress: Sequence[Report]) -> bool:
        """Whether this is to be told, as of some seconds ago."""
        if progress and time.monotonic() >= self._ask_at:
            await self.ask()
        return not self._is_on

    async def ask(self) -> bool:
        """Whether it is now."""
        return self._note(bool(await self._fetch(SQL.fact_get, _MUTED)))

    async def set(self, is_on: bool, now: int) -> bool:
        """Have it so; whether that is news."""
        if is_on:
            changed = await self._fetch(SQL.fact_put, _MUTED, str(now))
        else:
            changed = await self._fetch(SQL.fact_delete, _MUTED)
        self._note(is_on)
        return bool(changed)

    def _note(self, is_on: bool) -> bool:
        self._is_on, self._ask_at = is_on, time.monotonic() + _EVERY
        return is_on
