"""Delete what is past its retention."""

import asyncio
import random

from longshore.contract import Retention, Steward
from longshore.scheduler.jitter import early

__all__ = ["Batch", "Pruner"]

_SMALLEST, _LARGEST = 1_000, 50_000
_SHORT, _LONG = 0.05, 0.5
"""Seconds that a delete may take in any case, and in no case: someone may wait for it."""
_WORTH = 1.2
"""So much faster per job a larger batch has to be, or it is not worth the wait."""
_TICK, _BUSY_TICK = 60.0, 5.0
"""Where much is deleted, a minute's worth at once would be felt by everyone."""


class Batch:
    """How much to delete at a time: more, as long as that is quick or pays."""

    def __init__(self, smallest: int = _SMALLEST) -> None:
        self.size = self._smallest = smallest
        self._best = 0.0

    def took(self, seconds: float) -> None:
        """A batch of this size took so long."""
        rate = self.size / max(seconds, 1e-6)
        if seconds > _LONG:
            self.size = max(self.size // 2, self._smallest)
        elif seconds < _SHORT or rate > _WORTH * self._best:
            self.size = min(self.size * 2, _LARGEST)
        self._best = max(self._best, rate)


class Pruner:
    """Prunes a batch at a time, so that nobody waits for a long delete.

    While there is a backlog, others have at least a third of the store's time.
    """

    def __init__(
        self,
        engine: Steward,
        retention: Retention,
        *,
        rng: random.Random | None = None,
        batch: int = _SMALLEST,
    ) -> None:
        self._engine = engine
        self._retention = retention
        self._rng = rng or random.Random()
        self._smallest = batch
        self._batch = Batch(batch)

    async def tick(self) -> float:
        """Delete a batch; look again in a minute, sooner where much was, at once for more."""
        clock, batch = asyncio.get_running_loop().time, self._batch
        began, size = clock(), batch.size
        pruned = await self._engine.prune(self._retention, limit=size)
        took = clock() - began
        if pruned < size:
            is_busy = size > self._smallest
            self._batch = Batch(self._smallest)
            return early(_BUSY_TICK if is_busy else _TICK, self._rng)
        batch.took(took)
        return took / 2
