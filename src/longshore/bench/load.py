"""The jobs of a benchmark."""

import asyncio
import time
from array import array
from collections.abc import Iterator
from itertools import count

from longshore.app import Longshore
from longshore.bench.plan import Plan, Profile
from longshore.running import current_job
from longshore.task import Spec

__all__ = ["Load"]

_SAMPLED = 16
"""Every so many jobs one carries the instant it was submitted."""


class Load:
    """Tasks, the jobs made of them, and how long sampled jobs waited for their handler."""

    def __init__(self, plan: Plan) -> None:
        self.app = Longshore(plan.url)
        self.waits = array("d")
        self.started = 0
        self._plan = plan
        self._padding = "x" * max(plan.payload_bytes - 30, 0)
        task, queue = self.app.task, plan.queue
        self._noop = task(name="bench.noop", queue=queue)(self.noop)
        self._sleep = task(name="bench.sleep", queue=queue)(self.sleep)
        self._fail = task(name="bench.fail", queue=queue, max_attempts=3)(self.fail)

    async def noop(self, at: int, pad: str) -> None:
        """Do nothing."""
        self._note(at)

    async def sleep(self, at: int, pad: str, seconds: float) -> None:
        """Wait, as one does for a network."""
        self._note(at)
        await asyncio.sleep(seconds)

    async def fail(self, at: int, pad: str, times: int) -> None:
        """Fail so many times."""
        failures = current_job().failures
        self._note(0 if failures else at)
        if failures < times:
            raise RuntimeError("as planned")

    def specs(self) -> Iterator[Spec[None]]:
        """Jobs without end, the same for every run."""
        if self._plan.profile is Profile.NOOP:
            for number in count():
                at = 0 if number % _SAMPLED else time.monotonic_ns()
                yield self._noop.spec(at, self._padding)
        for number in count():
            yield self._mixed(number)

    def ping(self) -> Spec[None]:
        """One job that carries the instant it was made."""
        return self._noop.spec(time.monotonic_ns(), self._padding)

    def _mixed(self, number: int) -> Spec[None]:
        at = 0 if number % _SAMPLED else time.monotonic_ns()
        share, spread = number % 100, (number * 7_919 % 1_000) / 1_000
        if share < 70:
            return self._sleep.spec(at, self._padding, 0.001 + 0.004 * spread)
        if share < 90:
            return self._sleep.spec(at, self._padding, 0.2 + 1.8 * spread)
        return self._fail.spec(at, self._padding, 1 if share < 95 else 99)

    def _note(self, at: int) -> None:
        self.started += 1
        if at:
            self.waits.append((time.monotonic_ns() - at) / 1e6)
