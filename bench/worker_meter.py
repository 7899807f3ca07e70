"""What it costs to count one job: in the worker that settles it, and in who submits it.

python bench/worker_meter.py [--batch 1000] [--rounds 200]
"""

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence
from random import Random
from time import perf_counter

from longshore.contract import Engine
from longshore.core import settle
from longshore.core.job import Claim, JobId, NewJob, Submitted
from longshore.core.responses import Share
from longshore.observe.engine import observed
from longshore.observe.metrics import Metrics
from longshore.runtime.clock import SECOND, Clock, SystemClock
from longshore.worker.job_metrics import Meter
from longshore.worker.retry_budgets import Budgets


def main() -> None:
    """Print the best round of each, per job."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--batch", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=200)
    asked = parser.parse_args()
    claims = [_claim(number) for number in range(asked.batch)]
    ends = [settle.succeeded(one, started_at=10, finished_at=30, result=None) for one in claims]
    meter = Meter(Metrics(), Budgets(_Alone(), Random()))
    took = _best(
        asked.rounds, lambda: meter.count(claims, ends, special=0, refused=frozenset())
    )
    sys.stdout.write(
        f"settled    {took / asked.batch * 1e6:.3f} µs per job, {asked.batch} at a time\n"
    )
    for batch in (1, asked.batch):
        plain, counted = asyncio.run(_submitting(batch, asked.rounds))
        sys.stdout.write(
            f"submitted  {(counted - plain) / batch * 1e6:.3f} µs per job, {batch} at a time\n"
        )


class _Alone:
    """The standing of a worker that has no others beside it."""

    clock: Clock = SystemClock()
    shares: Sequence[Share] = ()

    def engine_time(self, instant: float) -> int:
        return int(instant * SECOND)


class _Nowhere:
    """An engine that accepts at once."""

    url = "sqlite://nowhere"

    def __init__(self, count: int) -> None:
        self._answers = [Submitted(JobId(bytes(16)))] * count

    async def submit(self, jobs: object, **terms: object) -> list[Submitted]:
        return self._answers


async def _submitting(batch: int, rounds: int) -> tuple[float, float]:
    jobs = [NewJob(id=JobId(bytes(16)), type="noop") for _ in range(batch)]
    plain: Engine = _Nowhere(batch)  # type: ignore[assignment]  # all that is asked of it
    times = []
    for engine in (plain, observed(plain, Metrics())):
        best = float("inf")
        for _ in range(rounds):
            began = perf_counter()
            await engine.submit(jobs)
            best = min(best, perf_counter() - began)
        times.append(best)
    return times[0], times[1]


def _best(rounds: int, call: Callable[[], None]) -> float:
    best = float("inf")
    for _ in range(rounds):
        began = perf_counter()
        call()
        best = min(best, perf_counter() - began)
    return best


def _claim(number: int) -> Claim:
    return Claim(
        handle=number,
        delivery=1,
        id=JobId(bytes(16)),
        type="noop",
        queue="default",
        tenant="default",
        payload=b"{}",
        priority=5,
        attempt=0,
        failures=0,
        crashes=0,
        lapses=0,
        max_attempts=5,
        timeout=None,
        created_at=0,
        run_at=number % 7,
    )


if __name__ == "__main__":
    main()
