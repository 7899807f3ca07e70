"""Orders to all that match: in batches, at a rate, beside others who change the same jobs."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial

import pytest

from longshore.contract import Engine, JobFilter
from longshore.core import ids
from longshore.core.job import Job, JobId
from longshore.core.state import State, Verb
from longshore.engines import open_engine
from longshore.errors import ConfigError, JobNotFoundError
from longshore.operations import bulk
from longshore.operations.backend import EngineBackend
from longshore.operations.bulk import Pace, Tally
from longshore.testing.factories import HOUR, a_job
from longshore.testing.manual import a_worker


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    engine = open_engine("sqlite://:memory:")
    await engine.migrate()
    yield engine
    await engine.close()


async def states(engine: Engine, queue: str | None = None) -> list[str]:
    found = await engine.find(JobFilter(queue=queue), limit=5_000)
    return sorted(job.state for job in found.jobs)


async def test_all_that_wait_or_run_are_cancelled_and_nothing_else(engine: Engine):
    mail = [a_job(queue="mail", tags=("blue",)) for _ in range(1_200)]
    later = [a_job(queue="mail", delay=HOUR) for _ in range(3)]
    await engine.submit([*mail, *later, a_job(queue="web")])
    worker = await a_worker(engine, queues=["mail"])
    await worker.start(*await worker.claim(2))
    which = bulk.scopes(JobFilter(queue="mail"), Verb.CANCEL)
    order = partial(engine.change, "cancel", reason="wrong list", independent=True)
    seen: list[int] = []

    assert await bulk.count(engine, which) == 1_203
    tagged = bulk.scopes(JobFilter(queue="mail", tag="blue"), Verb.CANCEL)
    assert await bulk.count(engine, tagged) == 1_200
    tally = await bulk.apply(engine, which, order, watch=lambda it: seen.append(it.done))
    again = await bulk.apply(engine, which, order)

    assert tally == Tally(matched=1_203, done=1_203, is_complete=True)
    assert len(seen) > 2
    assert again == Tally(is_complete=True), "those that run were asked before"
    assert await states(engine, queue="mail") == ["cancelled"] * 1_201 + ["running"] * 2
    assert await states(engine, queue="web") == ["ready"]


async def test_jobs_that_someone_else_changes_meanwhile_are_left_out(engine: Engine):
    jobs = [a_job(delay=HOUR) for _ in range(100)]
    await engine.submit(jobs)
    rivals = [jobs[0].id, jobs[41].id, jobs[99].id]

    async def order(job_ids: Sequence[JobId]) -> list[Job]:
        await engine.change("cancel", rivals, reason="mine")
        return await engine.change("retry", job_ids, independent=True)

    which = bulk.scopes(JobFilter(), Verb.RETRY_NOW)
    tally = await bulk.apply(engine, which, order)

    assert tally == Tally(matched=100, done=97, missed=3, is_complete=True)
    assert await states(engine) == ["cancelled"] * 3 + ["ready"] * 97


async def test_a_limit_a_rate_and_a_stop_are_heeded_between_batches(engine: Engine):
    await engine.submit([a_job() for _ in range(60)])
    which = bulk.scopes(JobFilter(state=State.READY), Verb.CANCEL)
    order = partial(engine.change, "cancel", reason="no", independent=True)
    waited: list[float] = []

    async def rest(seconds: float) -> bool:
        waited.append(seconds)
        await asyncio.sleep(0)
        return len(waited) < 3

    limited = await bulk.apply(engine, which, order, Pace(limit=7))
    stopped = await bulk.apply(engine, which, order, Pace(rate=100, rest=rest))
    waited.clear()
    slow = await bulk.apply(engine, which, order, Pace(rate=0.1, rest=rest))

    assert limited == Tally(matched=7, done=7)
    assert stopped == Tally(matched=30, done=30), "ten at a time, three times"
    assert slow == Tally(matched=3, done=3), "one at a time"
    assert [round(seconds, -1) for seconds in waited] == [10, 20, 30], "from the start"


async def test_jobs_that_a_filter_found_are_purged_without_a_look_at_each(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    await engine.submit([a_job() for _ in range(60)])
    worker = await a_worker(engine)
    for claim in await worker.claim(50):
        await worker.kill(claim)
    looks: list[JobId] = []

    async def look(job_id: JobId, *, tenant: str | None = None) -> Job:
        looks.append(job_id)
        raise JobNotFoundError(ids.text(job_id))

    monkeypatch.setattr(engine, "get", look)
    tally = await EngineBackend(engine).change_matching("purge", {})

    assert tally == Tally(matched=50, done=50, is_complete=True)
    assert await states(engine) == ["ready"] * 10
    assert looks == []


def test_a_state_that_forbids_the_order_is_refused():
    with pytest.raises(ConfigError, match="it must be scheduled or ready or running"):
        bulk.scopes(JobFilter(state=State.DEAD), Verb.CANCEL)
