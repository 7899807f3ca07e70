"""Delete what is past its retention."""

import random

from longshore.engine import Retention, Steward
from longshore.scheduler.spread import early

__all__ = ["Pruner"]

_BATCH = 1_000
_TICK = 60.0
# Between two batches of a backlog others get a turn at the store.
_BREATH = 0.05


class Pruner:
    """Prunes a batch at a time, so that nobody waits for a long delete."""

    def __init__(
        self,
        engine: Steward,
        retention: Retention,
        *,
        rng: random.Random | None = None,
        batch: int = _BATCH,
    ) -> None:
        self._engine = engine
        self._retention = retention
        self._rng = rng or random.Random()
        self._batch = batch

    async def tick(self) -> float:
        """Delete a batch; look again in a minute, in a moment while there is more."""
        pruned = await self._engine.prune(self._retention, limit=self._batch)
        return _BREATH if pruned >= self._batch else early(_TICK, self._rng)
