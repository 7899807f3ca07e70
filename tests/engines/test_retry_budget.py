"""Jobs that fail at once, over several workers on one store, on a clock that stands still."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from longshore.contract import Engine, JobFilter
from longshore.core.backoff import Backoff, Jitter
from longshore.core.explain import explain
from longshore.core.job import Job
from longshore.core.limit_settings import Layer, QueueSettings
from longshore.core.retry_budget import LEAST
from longshore.core.state import State
from longshore.engines import open_engine
from longshore.operations.explain import gather
from longshore.records import queue_settings
from longshore.runtime.clock import ManualClock
from longshore.testing.factories import SECOND, a_job
from longshore.testing.harness import eventually
from longshore.worker.registry import Execution, Handler, Registry
from longshore.worker.settings import WorkerSettings
from longshore.worker.worker import Worker

WORKERS = 4


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("empty_postgres_url")
    return f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"


@pytest.fixture
async def engine(url: str, clock: ManualClock) -> AsyncIterator[Engine]:
    engine = open_engine(url, clock=clock)
    await engine.migrate()
    yield engine
    await engine.close()


class Dependency:
    """What every job asks."""

    def __init__(self) -> None:
        self.is_down = False
        backoff = Backoff(base=SECOND // 2, cap=SECOND, jitter=Jitter.NONE)
        handler = Handler(
            type="noop",
            decode=lambda _: None,
            run=self.ask,
            execution=Execution.ASYNC,
            encode_result=lambda _: b"null",
            backoff=backoff,
        )
        self.registry = Registry()
        self.registry.add(handler)

    async def ask(self, _: Any) -> None:
        if self.is_down:
            raise ConnectionError("it is down")


@asynccontextmanager
async def fleet(engine: Engine, clock: ManualClock, registry: Registry) -> AsyncIterator[None]:
    """Workers that know of each other."""
    async with AsyncExitStack() as stack:
        for number in range(WORKERS):
            settings = WorkerSettings(
                name=f"w{number}", concurrency=8, lease=timedelta(seconds=6)
            )
            worker = Worker(engine, registry, settings, clock=clock, rng=Random(number))
            await stack.enter_async_context(running(worker))
        await eventually(lambda: have_renewed(engine, 0))
        clock.advance(1_000)
        since = clock.now()
        await eventually(lambda: have_renewed(engine, since))
        yield


@asynccontextmanager
async def running(worker: Worker) -> AsyncIterator[None]:
    task = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.stop_now()
        await task


async def have_renewed(engine: Engine, since: int) -> bool:
    renewed = [one.renewed_at >= since for one in (await engine.sessions()).sessions]
    return len(renewed) == WORKERS and all(renewed)


async def counted(engine: Engine, **counts: int) -> bool:
    """Whether so many jobs are in these states."""
    found = await engine.counts()
    return bool(found) and all(getattr(found[0], name) == n for name, n in counts.items())


async def retries(engine: Engine) -> list[Job]:
    """All that are to be tried again."""
    which, found, cursor = JobFilter(state=State.SCHEDULED), list[Job](), None
    while not found or cursor is not None:
        page = await engine.find(which, limit=1_000, cursor=cursor)
        found, cursor = [*found, *page.jobs], page.cursor
    return found


def by_second(jobs: list[Job]) -> Counter[int]:
    return Counter(job.run_at // SECOND for job in jobs)


async def test_what_fails_at_once_comes_back_to_a_fleet_within_twice_the_normal(
    engine: Engine, clock: ManualClock
):
    dependency, normal, failing = Dependency(), 1_000, 5_000
    async with fleet(engine, clock, dependency.registry):
        for second in range(1, 4):
            await engine.submit([a_job() for _ in range(normal)])
            await eventually(partial(counted, engine, succeeded=second * normal))
            clock.advance(SECOND)
        dependency.is_down = True

        await engine.submit([a_job() for _ in range(failing)])
        await eventually(partial(counted, engine, scheduled=failing), within=30.0)

    found = by_second(await retries(engine))
    # On PostgreSQL retries go together within a quarter of a second, from either side.
    most = normal if "sqlite" in engine.url else 1.25 * normal
    assert max(found.values()) <= most


async def test_a_fleet_that_knows_no_normal_brings_back_the_least_and_not_that_of_each(
    engine: Engine, clock: ManualClock
):
    dependency, failing = Dependency(), 600
    dependency.is_down = True
    async with fleet(engine, clock, dependency.registry):
        await engine.submit([a_job() for _ in range(failing)])
        await eventually(partial(counted, engine, scheduled=failing), within=30.0)

    found = by_second(await retries(engine))
    assert max(found.values()) <= (LEAST if "sqlite" in engine.url else 1.5 * LEAST)


async def test_a_fleet_brings_back_as_many_retries_as_an_operator_says(
    engine: Engine, clock: ManualClock
):
    dependency, rate, failing = Dependency(), 25, 300
    dependency.is_down = True
    await queue_settings.put(
        engine, "default", Layer.OVERRIDDEN, QueueSettings(retry_rate=rate)
    )
    async with fleet(engine, clock, dependency.registry):
        await engine.submit([a_job() for _ in range(failing)])
        await eventually(partial(counted, engine, scheduled=failing), within=30.0)

    jobs = await retries(engine)
    found = by_second(jobs)
    most = rate if "sqlite" in engine.url else 1.5 * rate
    assert max(found.values()) <= most
    assert max(found) - min(found) >= failing // rate - 1
    latest = max(jobs, key=lambda job: job.run_at)
    reasons = explain(await gather(engine, latest.id))
    assert "at most 25/s" in {one.code: one.text for one in reasons}["retry_rate"]
