"""How many jobs of a queue were pruned: remembered while jobs end, and forgotten afterwards."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from longshore.contract import Engine, Retention
from longshore.core.state import State
from longshore.engines import open_engine
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import a_job_that_is
from longshore.testing.factories import HOUR, a_job
from longshore.testing.manual import a_worker

KEEP = Retention(succeeded=HOUR)
QUEUE = "arranged"
"""That of `a_job_that_is`."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("empty_postgres_url")
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
async def engine(url: str, clock: ManualClock) -> AsyncIterator[Engine]:
    engine = open_engine(url, clock=clock)
    await engine.migrate()
    yield engine
    await engine.close()


async def _end_and_prune(engine: Engine, clock: ManualClock, jobs: int) -> None:
    for _ in range(jobs):
        await a_job_that_is(State.SUCCEEDED, engine)
    clock.advance(2 * HOUR)
    await engine.prune(KEEP, limit=100)


async def test_what_was_pruned_is_forgotten_once_nothing_is_left(
    engine: Engine, clock: ManualClock
) -> None:
    await _end_and_prune(engine, clock, 3)

    await engine.prune(KEEP, limit=100)

    await a_job_that_is(State.SUCCEEDED, engine)
    (counted,) = await engine.counts()
    assert (counted.succeeded, counted.pruned) == (1, 0)


async def test_what_was_pruned_is_remembered_while_each_pruning_leaves_nothing(
    engine: Engine, clock: ManualClock
) -> None:
    for _ in range(3):
        await _end_and_prune(engine, clock, 2)

    await a_job_that_is(State.SUCCEEDED, engine)
    (counted,) = await engine.counts()
    assert (counted.succeeded, counted.pruned) == (1, 6)


async def test_what_was_pruned_is_remembered_while_a_job_has_ended_among_held_ones(
    engine: Engine, clock: ManualClock
) -> None:
    await _end_and_prune(engine, clock, 3)
    await engine.submit([a_job(queue=QUEUE), a_job(queue=QUEUE)])
    worker = await a_worker(engine, queues=[QUEUE])
    ended, _ = await worker.claim(2)
    await worker.succeed(ended)

    await engine.prune(KEEP, limit=100)

    (counted,) = await engine.counts()
    assert (counted.running, counted.succeeded, counted.pruned) == (1, 1, 3)
