"""Make scheduled jobs ready when they are due."""

import random
from collections.abc import Callable

from longshore.contract import Steward
from longshore.scheduler.jitter import early, late

__all__ = ["Promoter"]

_SECOND = 1_000_000
_BATCH = 1_000
_LONGEST_WAIT = 0.1
"""Seconds. A job that was submitted meanwhile, for a moment before the next one due, is late by
this much at most. Looking costs one read of an index."""
# What is due but was not promoted is held back by the engine on purpose: look again soon, but
# do not spin.
_HELD_BACK = 0.05
_SPREAD = 0.005
_TOGETHER = 0.025
"""Seconds. Where jobs become due all the time, so many of them are promoted at once: each call
is a commit, and calls workers."""


class Promoter:
    """Promotes due jobs."""

    def __init__(
        self,
        engine: Steward,
        *,
        on_promoted: Callable[[int], None] | None = None,
        rng: random.Random | None = None,
        batch: int = _BATCH,
    ) -> None:
        self._engine = engine
        self._on_promoted = on_promoted
        self._rng = rng or random.Random()
        self._batch = batch

    async def tick(self) -> float:
        """Promote a batch; wait for the next due job, at most 0.1 s, not at all for more."""
        promoted = await self._engine.promote(limit=self._batch)
        if promoted.count and self._on_promoted is not None:
            self._on_promoted(promoted.count)
        if promoted.next_due_in is None or promoted.next_due_in >= _LONGEST_WAIT * _SECOND:
            return early(_LONGEST_WAIT, self._rng)
        if promoted.count >= self._batch and promoted.next_due_in <= 0:
            return 0.0
        if promoted.count:
            soon = max(promoted.next_due_in / _SECOND, _TOGETHER)
        elif promoted.next_due_in <= 0:
            return _HELD_BACK
        else:
            soon = promoted.next_due_in / _SECOND
        return late(soon, self._rng, by=_SPREAD)
