"""The jobs of a benchmark."""

import asyncio
import time
from array import array
from collections.abc import Iterator
from itertools import count
from random import Random
from typing import Any, NamedTuple

from msgspec.structs import replace

from longshore.app import Longshore
from longshore.bench.plan import Plan, Profile
from longshore.bench.tally import Lot, Tally
from longshore.core.codec import fingerprint
from longshore.job_context import current_job
from longshore.task import Spec

__all__ = ["Load", "Mixed", "mixture"]

_SAMPLED = 16
"""Every so many jobs one carries the instant it was submitted."""
_RESULT = "r" * 200


_PERIOD = 10_000
_ATTEMPTS = 3
_ALWAYS = 99


class Mixed(NamedTuple):
    """One job of the mix: how long it takes, or how often it fails first."""

    seconds: float = 0.0
    failures: int = 0

    @property
    def lot(self) -> Lot:
        """What its handler has to write down in the end."""
        if self.failures >= _ATTEMPTS:
            return Lot(_ATTEMPTS, 0)
        return Lot(self.failures + 1, 1)


def mixture(seed: int, long_seconds: float = 0.0) -> list[Mixed]:
    """The mix in the order of the seed; after the last comes the first again."""
    lots = Random(seed)
    jobs = [Mixed(lots.uniform(0.001, 0.005)) for _ in range(_PERIOD * 70 // 100)]
    jobs += [Mixed(lots.uniform(0.2, 2.0)) for _ in range(_PERIOD * 20 // 100)]
    jobs += [Mixed(failures=1), Mixed(failures=_ALWAYS)] * (_PERIOD * 5 // 100)
    if long_seconds:
        jobs[-2 * (_PERIOD * 5 // 100) - 1] = Mixed(long_seconds)
    lots.shuffle(jobs)
    return jobs


class Load:
    """Tasks, the jobs made of them, and how long sampled jobs waited for their handler.

    With a tally its handlers write down each job by its number.
    """

    def __init__(self, plan: Plan, tally: Tally | None = None) -> None:
        self.app = Longshore(plan.url)
        self.waits = array("d")
        self.started = 0
        self._plan = plan
        self._tally = tally
        self._mix = mixture(plan.seed, plan.long_seconds)
        self._padding = "x" * max(plan.payload_bytes - 44, 0)
        task, queue = self.app.task, plan.queue
        self._noop = task(name="bench.noop", queue=queue)(self.noop)
        self._sleep = task(name="bench.sleep", queue=queue)(self.sleep)
        self._fail = task(name="bench.fail", queue=queue, max_attempts=_ATTEMPTS)(self.fail)
        self._real = [
            task(name=f"bench.real{number}", queue=queue)(self.real) for number in range(20)
        ]

    async def noop(self, at: int, seq: int, pad: str) -> None:
        """Do nothing."""
        self._begin(at, seq)
        if self._tally:
            self._tally.end(seq)

    async def real(self, at: int, seq: int, pad: str) -> str:
        """Return something worth keeping."""
        self._begin(at, seq)
        if self._tally:
            self._tally.end(seq)
        return _RESULT

    async def sleep(self, at: int, seq: int, pad: str, seconds: float) -> None:
        """Wait, as one does for a network."""
        self._begin(at, seq)
        await asyncio.sleep(seconds)
        if self._tally:
            self._tally.end(seq)

    async def fail(self, at: int, seq: int, pad: str, times: int) -> None:
        """Fail so many times."""
        failures = current_job().failures
        self._begin(0 if failures else at, seq)
        if failures < times:
            raise RuntimeError("as planned")
        if self._tally:
            self._tally.end(seq)

    @property
    def lots(self) -> list[Lot]:
        """What a job has to leave in a tally: number n the n-th of these, and over again."""
        if self._plan.profile is not Profile.MIX:
            return [Lot(1, 1)]
        return [one.lot for one in self._mix]

    def specs(self) -> Iterator[Spec[Any]]:
        """Jobs without end, the same for every run with the same seed."""
        kinds = {Profile.NOOP: self._plain, Profile.MIX: self._mixed, Profile.REAL: self._whole}
        return map(kinds[self._plan.profile], count())

    def ping(self, *, is_sampled: bool) -> Spec[None]:
        """One job, which carries the instant it was made if it is sampled."""
        return self._noop.spec(time.monotonic_ns() if is_sampled else 0, 0, self._padding)

    def _plain(self, number: int) -> Spec[None]:
        return self._noop.spec(_instant(number), number, self._padding)

    def _whole(self, number: int) -> Spec[str]:
        spread = number * 7_919
        spec = self._real[spread % 20].spec(_instant(number), number, self._padding)
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
        at, one = _instant(number), self._mix[number % _PERIOD]
        if one.failures:
            return self._fail.spec(at, number, self._padding, one.failures)
        return self._sleep.spec(at, number, self._padding, one.seconds)

    def _begin(self, at: int, seq: int) -> None:
        self.started += 1
        if self._tally:
            self._tally.begin(seq)
        if at:
            self.waits.append((time.monotonic_ns() - at) / 1e6)


def _instant(number: int) -> int:
    """Now, in the jobs that are sampled."""
    return 0 if number % _SAMPLED else time.monotonic_ns()
