"""The retry budgets of the queues that a worker serves."""

import threading
from collections import defaultdict
from collections.abc import Sequence
from random import Random
from typing import Protocol

from longshore.core.responses import Share
from longshore.core.retry_budget import RetryBudget
from longshore.runtime.clock import Clock

__all__ = ["Budgets", "Fleet"]


class Fleet(Protocol):
    """What a worker's standing tells of the engine's time, and of other workers."""

    clock: Clock
    shares: Sequence[Share]

    def engine_time(self, instant: float) -> int:
        """A local monotonic instant on the engine's clock."""
        ...


class Budgets:
    """Safe to ask from any thread: attempts end in threads too."""

    def __init__(self, fleet: Fleet, rng: Random) -> None:
        self._fleet = fleet
        self._rng = rng
        self._lock = threading.Lock()
        self._of: defaultdict[str, RetryBudget] = defaultdict(RetryBudget)
        self._shares: Sequence[Share] = ()

    def succeeded(self, queue: str, count: int) -> None:
        """So many jobs of a queue did."""
        with self._lock:
            self._of[queue].succeeded(count, self._now())

    def delay(self, queue: str, wanted: int) -> int:
        """How long a retry is to wait that was to wait as long as `wanted`."""
        with self._lock:
            self._share()
            return self._of[queue].delay(wanted, self._now(), self._rng.random())

    def _share(self) -> None:
        if self._shares is not self._fleet.shares:
            self._shares = self._fleet.shares
            for one in self._shares:
                self._of[one.queue].share(place=one.place, of=one.of, rate=one.retry_rate)

    def _now(self) -> int:
        """The engine's time: then the seconds of all workers are the same."""
        return self._fleet.engine_time(self._fleet.clock.monotonic())
