"""A worker whose line to the engine is cut, stalled and robbed of answers all the time."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
from workshop import Workshop, open_workshop

from longshore.core.backoff import Backoff
from longshore.core.job import JobId
from longshore.core.state import TERMINAL, State
from longshore.directives import Snooze
from longshore.job_context import current_job
from longshore.runtime.clock import SystemClock
from longshore.scheduler.promote import Promoter
from longshore.testing.harness import eventually

QUICK = Backoff(base=1_000, cap=5_000)
KINDS = ("fast", "slow", "thread", "flapping", "poison", "snooze")

pytestmark = pytest.mark.slow


@pytest.fixture
async def shop() -> AsyncIterator[Workshop]:
    async with open_workshop(SystemClock()) as shop:
        yield shop


class Book:
    """Handlers of every temper, and how often each of their jobs ran."""

    def __init__(self, shop: Workshop, rng: Random) -> None:
        self.runs: Counter[str] = Counter()
        self._rng = rng
        for kind in KINDS:
            run = self.in_thread if kind == "thread" else getattr(self, kind)
            shop.task(kind, run, backoff=QUICK)

    def _note(self) -> int:
        self.runs[current_job().id] += 1
        return current_job().attempt

    async def fast(self, _: Any) -> None:
        self._note()

    async def slow(self, _: Any) -> None:
        self._note()
        await asyncio.sleep(self._rng.uniform(0, 0.03))

    def in_thread(self, _: Any) -> None:
        self._note()

    async def flapping(self, _: Any) -> None:
        if self._note() == 1:
            raise ValueError("the first time")

    async def poison(self, _: Any) -> None:
        self._note()
        raise ValueError("always")

    async def snooze(self, _: Any) -> None:
        if self._note() == 1:
            raise Snooze(0.002)


async def weather(shop: Workshop, rng: Random) -> None:
    """Trouble of every kind, never as long as a lease."""
    while True:
        await asyncio.sleep(rng.uniform(0.005, 0.04))
        trouble = rng.choice(("lose", "lose", "outage", "hang"))
        if trouble == "lose":
            shop.flaky.lose_answers(rng.randint(1, 3))
        else:
            shop.flaky.go_down() if trouble == "outage" else shop.flaky.hang()
            await asyncio.sleep(rng.uniform(0.0, 0.03))
            shop.flaky.come_back()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
async def test_every_job_ends_once_and_runs_as_often_as_it_was_started(
    shop: Workshop, seed: int
):
    rng = Random(seed)
    book = Book(shop, rng)
    jobs: dict[JobId, str] = {}
    for number in range(300):
        kind = KINDS[number % len(KINDS)]
        jobs[await shop.submit(kind, max_attempts=3)] = kind
    worker = shop.worker(
        concurrency=8,
        claim_batch=20,
        ticks=[("promote", Promoter(shop.engine).tick)],
    )
    storm = asyncio.create_task(weather(shop, rng))

    async def are_over() -> bool:
        return all([(await shop.job(one)).state in TERMINAL for one in jobs])

    async with shop.working(worker):
        await eventually(are_over, within=30.0, every=0.1)
        storm.cancel()
        shop.flaky.come_back()

    assert (worker.stats.lost_leases, worker.stats.stale) == (0, 0)
    for job_id, kind in jobs.items():
        job = await shop.job(job_id)
        expected = State.DEAD if kind == "poison" else State.SUCCEEDED
        runs = {"poison": 3, "flapping": 2, "snooze": 2}.get(kind, 1)
        assert (kind, job.state, job.attempt) == (kind, expected, runs)
    assert sum(book.runs.values()) == 50 * (1 + 1 + 1 + 2 + 3 + 2)
