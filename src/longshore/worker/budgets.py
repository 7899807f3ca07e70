"""The retry budgets of the queues that a worker serves."""

import threading
from collections import defaultdict
from collections.abc import Callable
from random import Random

from longshore.core.herd import RetryBudget
from longshore.runtime.clock import SECOND

__all__ = ["Budgets"]


class Budgets:
    """Safe to ask from any thread: attempts end in threads too."""

    def __init__(self, monotonic: Callable[[], float], rng: Random) -> None:
        self._monotonic = monotonic
        self._rng = rng
        self._lock = threading.Lock()
        self._of: defaultdict[str, RetryBudget] = defaultdict(RetryBudget)

    def succeeded(self, queue: str, count: int) -> None:
        """So many jobs of a queue did."""
        with self._lock:
            self._of[queue].succeeded(count, self._now())

    def delay(self, queue: str, wanted: int) -> int:
        """How long a retry is to wait that was to wait as long as `wanted`."""
        with self._lock:
            return self._of[queue].delay(wanted, self._now(), self._rng.random())

    def _now(self) -> int:
        return int(self._monotonic() * SECOND)
