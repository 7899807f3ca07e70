"""The scheduler as a whole: four beats that run until drained, and outlive an outage."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from longshore.contract import Engine, JobFilter, Retention
from longshore.core.schedule import declared
from longshore.engines import open_engine
from longshore.errors import JobNotFoundError
from longshore.operations.outbox_alarm import Standing, Watch
from longshore.records import flags, schedules
from longshore.runtime.clock import ManualClock
from longshore.scheduler.prune import Batch, Pruner
from longshore.scheduler.service import Scheduler
from longshore.testing.factories import DAY, HOUR, MINUTE, a_job, a_schedule
from longshore.testing.flaky import FlakyEngine
from longshore.testing.manual import LEASE, a_worker


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def engine(clock: ManualClock) -> AsyncIterator[Engine]:
    engine = open_engine("sqlite://:memory:", clock=clock)
    await engine.migrate()
    yield engine
    await engine.close()


async def an_idle_store_with_work_of_every_kind(engine: Engine, clock: ManualClock) -> None:
    """A job due, a dead worker's job, a due schedule, and a job past its retention."""
    old, held, due = a_job(), a_job(), a_job(run_at=clock.now() + DAY)
    worker = await a_worker(engine, lease=LEASE)
    await engine.submit([old])
    (claim,) = await worker.claim()
    await worker.succeed(claim)
    await engine.submit([held])
    await worker.claim()
    await engine.submit([due])
    await schedules.put(engine, declared(a_schedule(every=MINUTE), now=clock.now()))
    clock.advance(DAY + MINUTE)


async def test_it_promotes_reclaims_fires_and_prunes(engine: Engine, clock: ManualClock):
    await an_idle_store_with_work_of_every_kind(engine, clock)
    is_ready = asyncio.Event()
    told: list[int] = []

    def note(jobs: int) -> None:
        told.append(jobs)
        if len(told) == 3:
            is_ready.set()

    scheduler = Scheduler(engine, clock=clock, on_ready=note)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        group.create_task(scheduler.run())
        await is_ready.wait()
        scheduler.drain()

    (counts,) = await engine.counts()
    assert told == [1, 1, 1]
    assert (counts.ready, counts.running, counts.scheduled, counts.succeeded) == (3, 0, 0, 0)


async def test_a_drained_scheduler_does_not_start(engine: Engine):
    scheduler = Scheduler(engine)
    scheduler.drain()

    async with asyncio.timeout(10):
        await scheduler.run()


async def test_it_outlives_an_outage(engine: Engine, clock: ManualClock):
    await engine.submit([a_job(delay=MINUTE)])
    clock.advance(MINUTE)
    line = FlakyEngine(engine)
    line.go_down()
    promoted = asyncio.Event()
    scheduler = Scheduler(line, clock=clock, on_ready=lambda _: promoted.set())

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        group.create_task(scheduler.run())
        for _ in range(20):
            await asyncio.sleep(0)
        calls = set(line.calls)
        line.come_back()
        await promoted.wait()
        scheduler.drain()

    watched = {"list_records", "consumers", "ping"}
    assert calls == {"promote", "expired_sessions", "due_schedules", "prune"} | watched
    assert [counts.ready for counts in await engine.counts()] == [1]


async def test_pruning_deletes_what_is_past_its_retention_batch_by_batch(
    engine: Engine, clock: ManualClock
):
    *old, young = [a_job() for _ in range(8)]
    await engine.submit([*old, young])
    await engine.change("cancel", [job.id for job in old], reason="no use")
    pruner = Pruner(engine, Retention(cancelled=HOUR), batch=1)

    clock.advance(HOUR)
    delays = [await pruner.tick() for _ in range(2)]
    left = (await engine.find(JobFilter(), limit=10)).jobs
    for _ in old:
        await pruner.tick()

    assert max(delays) < 30
    assert 5 <= len(left) <= 6
    for job in old:
        with pytest.raises(JobNotFoundError):
            await engine.get(job.id)
    await engine.get(young.id)


async def test_where_much_is_deleted_it_looks_again_soon(engine: Engine, clock: ManualClock):
    jobs = [a_job() for _ in range(8)]
    await engine.submit(jobs)
    await engine.change("cancel", [job.id for job in jobs], reason="no use")
    pruner = Pruner(engine, Retention(cancelled=HOUR), batch=1)

    clock.advance(HOUR)
    delays = [await pruner.tick() for _ in range(10)]

    emptied = next(delay for delay in delays if delay > 1)
    assert 3 <= emptied <= 5
    assert delays[-1] >= 30


def sizes(*seconds: float) -> list[int]:
    """Of batches that took so long."""
    batch = Batch(1_000)
    found: list[int] = []
    for one in seconds:
        batch.took(one)
        found.append(batch.size)
    return found


def test_batches_that_are_quick_grow_up_to_a_bound():
    assert sizes(*(0.01,) * 8)[-3:] == [50_000, 50_000, 50_000]


def test_batches_grow_beyond_that_only_while_it_pays():
    per_call = [0.1 + 0.00001 * size for size in (1_000, 2_000, 4_000, 8_000, 16_000)]
    per_job = [0.0001 * size for size in (1_000, 2_000, 2_000)]

    assert sizes(*per_call) == [2_000, 4_000, 8_000, 16_000, 32_000]
    assert sizes(*per_job) == [2_000, 2_000, 2_000]


def test_batches_that_take_too_long_shrink_down_to_the_first():
    assert sizes(0.01, 0.01, 0.9, 0.9, 0.9) == [2_000, 4_000, 2_000, 1_000, 1_000]


async def test_with_nothing_to_prune_it_looks_again_within_a_minute(engine: Engine):
    delay = await Pruner(engine, Retention()).tick()

    assert 30 <= delay <= 60


async def test_over_its_bound_the_outbox_loses_progress_until_half_of_it_is_read(
    engine: Engine, caplog: pytest.LogCaptureFixture
):
    looks: list[Standing] = []
    watches = [Watch(engine, most=4, on_look=looks.append) for _ in range(2)]
    cursor = await engine.take_cursor("kafka", holder="a", lease=HOUR)
    assert cursor is not None

    async def look(behind: int) -> bool:
        span = await engine.span()
        for _ in range(behind - (span.last - position)):
            await engine.submit([a_job()])
        for watch in watches:
            await watch.tick()
        return await flags.is_muted(engine)

    position = 0
    seen = [await look(4), await look(5)]
    for read in (2, 1):
        position += read
        await engine.advance(cursor, position=position)
        seen.append(await look(5 - position))
    await look(5)
    assert await engine.delete_consumer("kafka")
    seen += [await look(0)]

    assert seen == [False, True, True, False, False]
    assert [(one.behind, one.is_muted) for one in looks[2:4]] == [(5, True)] * 2
    told = [
        one.message
        for one in caplog.records
        if one.name == "longshore.outbox" and one.levelno >= logging.WARNING
    ]
    # Whoever is second has nothing to tell.
    assert told == ["outbox over its bound, progress is left out"] * 2
