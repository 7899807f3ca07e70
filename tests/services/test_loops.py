"""When the producer of a trial sends its jobs."""

import asyncio
from pathlib import Path

import pytest

from longshore.core.view import JobFilter
from longshore.engines import open_engine
from longshore_lab.batch import Batch, open_batches
from longshore_lab.ledger import Ledger, now
from longshore_lab.loops import arrive
from longshore_lab.producer import produce
from longshore_lab.trial import Trial

PATIENCE = 30.0


async def test_in_an_open_loop_jobs_arrive_though_those_before_were_not_answered():
    trial = Trial(url="", folder="", jobs=40, batch=10, rate=1e6, begins=now())
    begun: list[int] = []
    all_begun = asyncio.Event()

    async def send(batch: Batch) -> None:
        begun.append(batch.number)
        if len(begun) == 4:
            all_begun.set()
        await all_begun.wait()

    async with asyncio.timeout(PATIENCE):
        await arrive(trial, open_batches(trial, []), send)

    assert begun == [0, 1, 2, 3]


async def test_in_an_open_loop_no_job_comes_before_its_time():
    trial = Trial(url="", folder="", jobs=30, batch=10, rate=1_000.0, begins=now() + 20_000)
    early: list[int] = []

    async def send(batch: Batch) -> None:
        early.append(trial.due(batch.orders.start) - now())

    await arrive(trial, open_batches(trial, []), send)

    assert len(early) == 3
    # A timer of the loop may ring a millisecond before the clock says so.
    assert max(early) < 2_000


@pytest.mark.parametrize("jobs", [60])
async def test_in_a_closed_loop_no_more_jobs_are_under_way_than_asked_for(
    jobs: int, tmp_path: Path
):
    trial = Trial(
        url="sqlite://:memory:", folder=str(tmp_path), jobs=jobs, batch=10, in_flight=20
    )
    engine = open_engine(trial.url)
    await engine.migrate()
    book = Ledger(trial.ledgers, "producer-1", role="producer")
    deepest = 0

    async with asyncio.timeout(PATIENCE):
        producing = asyncio.create_task(produce(trial, engine, book))
        while not producing.done():
            ready = sum(one.ready for one in await engine.counts())
            deepest = max(deepest, ready)
            if ready == 20:
                page = await engine.find(JobFilter(), limit=jobs)
                live = [job.id for job in page.jobs if job.state.value == "ready"]
                await engine.change("cancel", live, reason="room for others")
            await asyncio.sleep(0)
        await producing

    page = await engine.find(JobFilter(), limit=100)
    await engine.close()
    assert deepest == 20
    assert len(page.jobs) == jobs
