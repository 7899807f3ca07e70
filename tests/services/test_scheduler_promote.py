"""The promoter: jobs become ready when they are due, and it knows when to look again."""

from collections.abc import AsyncIterator

import pytest

from longshore.contract import Engine
from longshore.core.state import State
from longshore.engines import open_engine
from longshore.runtime.clock import ManualClock
from longshore.scheduler.promote import Promoter
from longshore.testing.factories import MILLISECOND, SECOND, a_job


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def engine(clock: ManualClock) -> AsyncIterator[Engine]:
    engine = open_engine("sqlite://:memory:", clock=clock)
    await engine.migrate()
    yield engine
    await engine.close()


async def test_a_job_becomes_ready_when_it_is_due(engine: Engine, clock: ManualClock):
    job = a_job(delay=SECOND)
    await engine.submit([job])
    promoter = Promoter(engine)

    await promoter.tick()
    before = (await engine.get(job.id)).state
    clock.advance(SECOND)
    await promoter.tick()

    assert before is State.SCHEDULED
    assert (await engine.get(job.id)).state is State.READY


async def test_it_waits_for_the_next_due_job_and_not_longer(engine: Engine):
    await engine.submit([a_job(delay=30 * MILLISECOND)])

    delay = await Promoter(engine).tick()

    assert 0.03 <= delay <= 0.035


@pytest.mark.parametrize("due_in", [[], [3_600 * SECOND]], ids=["nothing", "far off"])
async def test_it_looks_again_within_a_tenth_of_a_second(engine: Engine, due_in: list[int]):
    await engine.submit([a_job(delay=delay) for delay in due_in])

    delay = await Promoter(engine).tick()

    assert 0.05 <= delay <= 0.1


async def test_it_goes_on_at_once_while_there_is_more(engine: Engine, clock: ManualClock):
    await engine.submit([a_job(delay=SECOND) for _ in range(5)])
    clock.advance(SECOND)
    promoter = Promoter(engine, batch=2)

    delays = [await promoter.tick() for _ in range(3)]

    assert delays[:2] == [0.0, 0.0]
    assert delays[2] > 0
    assert [counts.ready for counts in await engine.counts()] == [5]


async def test_jobs_that_become_due_one_after_the_other_are_promoted_together(
    engine: Engine, clock: ManualClock
):
    await engine.submit([a_job(delay=at * MILLISECOND) for at in (10, 12, 14, 16, 500)])
    promoter = Promoter(engine)
    clock.advance(10 * MILLISECOND)

    delay = await promoter.tick()

    assert 0.025 <= delay <= 0.03


async def test_it_tells_how_many_jobs_it_made_ready(engine: Engine, clock: ManualClock):
    told: list[int] = []
    promoter = Promoter(engine, on_promoted=told.append)
    await engine.submit([a_job(delay=SECOND) for _ in range(3)])

    await promoter.tick()
    clock.advance(SECOND)
    await promoter.tick()

    assert told == [3]
