"""The jobs of a benchmark."""

import asyncio
import time
from array import array
from collections.abc import Iterator
from itertools import count
from typing import Any

from msgspec.structs import replace

from longshore.app import Longshore
from longshore.bench.plan import Plan, Profile
from longshore.core.codec import fingerprint
from longshore.running import current_job
from longshore.task import Spec

__all__ = ["Load"]

_SAMPLED = 16
"""Every so many jobs one carries the instant it was submitted."""
_RESULT = "r" * 200


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
        self._real = [
            task(name=f"bench.real{number}", queue=queue)(self.real) for number in range(20)
        ]

    async def noop(self, at: int, pad: str) -> None:
        """Do nothing."""
        self._note(at)

    async def real(self, at: int, pad: str) -> str:
        """Return something worth keeping."""
        self._note(at)
        return _RESULT

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

    def specs(self) -> Iterator[Spec[Any]]:
        """Jobs without end, the same for every run."""
        kinds = {Profile.NOOP: self._plain, Profile.MIX: self._mixed, Profile.REAL: self._whole}
        return map(kinds[self._plan.profile], count())

    def ping(self, *, is_sampled: bool) -> Spec[None]:
        """One job, which carries the instant it was made if it is sampled."""
        return self._noop.spec(time.monotonic_ns() if is_sampled else 0, self._padding)

    def _plain(self, number: int) -> Spec[None]:
        return self._noop.spec(_instant(number), self._padding)

    def _whole(self, number: int) -> Spec[str]:
        spread = number * 7_919
        spec = self._real[spread % 20].spec(_instant(number), self._padding)
        job = replace(
            spec.job,
            queue=self._plan.queues[number // 3 % 4],
            tenant=f"tenant-{spread // 20 % 50}",
            priority=(1, 5, 9)[number % 3],
            ordering_key=f"order-{spread // 10 % 1_000}" if number % 10 == 0 else None,
        )
        if number % 10 < 3:
            key = f"{self._plan.queue}-{number}"
            job = replace(job, idempotency_key=key, fingerprint=fingerprint(job))
        return replace(spec, job=job)

    def _mixed(self, number: int) -> Spec[None]:
        at = _instant(number)
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


def _instant(number: int) -> int:
    """Now, in the jobs that are sampled."""
    return 0 if number % _SAMPLED else time.monotonic_ns()
