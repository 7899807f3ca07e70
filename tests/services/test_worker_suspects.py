"""Suspects where no child process can take them: alone in their worker, and only for a time."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from workshop import Workshop, open_workshop, within

from longshore import Longshore, Settings
from longshore.core.job import Death, JobId
from longshore.core.poison import unreported
from longshore.core.state import State
from longshore.handle import JobHandle
from longshore.records import pauses
from longshore.testing.factories import SECOND
from longshore.testing.harness import eventually
from longshore.testing.manual import a_worker
from longshore.worker.worker import Worker


@pytest.fixture
async def shop() -> AsyncIterator[Workshop]:
    async with open_workshop() as shop:
        yield shop


class Hall:
    """Handlers that wait until they are let go, and who was there when each began."""

    def __init__(self, shop: Workshop, **options: Any) -> None:
        self.inside: set[int] = set()
        self.began: list[tuple[int, set[int]]] = []
        self.doors: dict[int, asyncio.Event] = {}
        shop.task("wait", self.wait, **options)

    async def wait(self, arguments: Any) -> None:
        n = arguments["n"]
        self.began.append((n, set(self.inside)))
        self.inside.add(n)
        await self.door(n).wait()
        self.inside.remove(n)

    def door(self, n: int) -> asyncio.Event:
        return self.doors.setdefault(n, asyncio.Event())

    async def entered(self, *numbers: int) -> None:
        await eventually(lambda: set(numbers) <= self.inside)


async def lost(
    shop: Workshop, job: JobId, times: int, *, beside: int = 0, is_known: bool = True
) -> None:
    """So many workers vanish while they hold this job, and so many others."""
    for _ in range(times):
        worker = await a_worker(shop.engine, types=["wait"])
        claims = await worker.claim(1 + beside)
        assert job in {one.id for one in claims}
        await worker.start(*(one for one in claims if is_known or one.id != job))
        token = worker.session.token
        held = await shop.engine.held(token)
        await shop.engine.end_session(token, unreported(held or []))


@asynccontextmanager
async def kept_waiting(shop: Workshop) -> AsyncIterator[tuple[Hall, Worker, JobId]]:
    """A suspect, number 0, waits to be alone in a worker that runs number 1."""
    hall = Hall(shop)
    suspect = await shop.submit("wait", {"n": 0})
    await lost(shop, suspect, 2)
    await pauses.pause(shop.engine, queue="default")
    await shop.submit("wait", {"n": 1}, queue="other")
    worker = shop.worker(queues=("default", "other"))
    async with shop.working(worker):
        await hall.entered(1)
        await pauses.resume(shop.engine, queue="default")
        worker.nudge()
        await eventually(lambda: worker._fetcher._guard.is_shut)
        yield hall, worker, suspect


async def test_a_suspect_runs_while_its_worker_runs_nothing_else(shop: Workshop):
    hall = Hall(shop)
    suspect = await shop.submit("wait", {"n": 0})
    await lost(shop, suspect, 2)
    worker = shop.worker()
    hall.door(0).clear()

    async with shop.working(worker):
        await hall.entered(0)
        later = [await shop.submit("wait", {"n": n}) for n in (1, 2)]
        worker.nudge()
        states = [(await shop.job(one)).state for one in later]
        hall.door(0).set()
        await hall.entered(1, 2)
        for n in (1, 2):
            hall.door(n).set()
        await eventually(lambda: worker.stats.succeeded == 3)

    assert states == [State.READY, State.READY]
    assert hall.began == [(0, set()), (1, set()), (2, {1})]


async def test_a_suspect_waits_until_the_others_have_ended(shop: Workshop):
    async with kept_waiting(shop) as (hall, worker, _):
        hall.door(1).set()
        await hall.entered(0)
        hall.door(0).set()
        await eventually(lambda: worker.stats.succeeded == 2)

    assert hall.began == [(1, set()), (0, set())]


async def test_others_that_do_not_end_hold_a_suspect_up_for_ten_seconds_at_most(
    shop: Workshop,
):
    async with kept_waiting(shop) as (hall, worker, _):
        began = list(hall.began)
        shop.clock.advance(11 * SECOND)
        worker.nudge()
        await hall.entered(0)

    assert began == [(1, set())]
    assert hall.began == [(1, set()), (0, {1})]


async def test_a_suspect_is_left_alone_for_a_minute_at_most(shop: Workshop):
    hall = Hall(shop)
    suspect = await shop.submit("wait", {"n": 0})
    await lost(shop, suspect, 2)

    worker = shop.worker()
    async with shop.working(worker):
        await hall.entered(0)
        await shop.submit("wait", {"n": 1})
        shop.clock.advance(61 * SECOND)
        worker.nudge()
        await hall.entered(1)

    assert hall.began == [(0, set()), (1, {0})]


async def test_two_workers_in_a_row_that_ran_nothing_else_make_a_job_dead(shop: Workshop):
    hall = Hall(shop)
    poison = await shop.submit("wait", {"n": 0})
    await lost(shop, poison, 4)

    await within(shop.work())

    job = await shop.job(poison)
    assert (job.state, job.reason, job.crashes, job.failures) == (State.DEAD, "poison", 4, 0)
    assert job.failure is not None
    assert job.failure.message.startswith("two workers in a row died")
    assert hall.began == []
    outcomes = [one.outcome for one in await shop.engine.attempts(poison)]
    assert outcomes == ["crashed"] * 4 + ["condemned"]


@pytest.mark.parametrize("crashes", [4, 7])
async def test_a_job_that_never_was_alone_is_not_blamed(shop: Workshop, crashes: int):
    hall = Hall(shop)
    job = await shop.submit("wait", {"n": 0})
    await shop.submit("wait", {"n": 1})
    await lost(shop, job, crashes, beside=1)
    for n in (0, 1):
        hall.door(n).set()

    worker = shop.worker()

    async def both_are_done() -> bool:
        """While time passes: of two that have to be alone, one is put off."""
        shop.clock.advance(SECOND)
        await shop.engine.promote(limit=10)
        worker.nudge()
        return worker.stats.succeeded == 2

    async with shop.working(worker):
        await eventually(both_are_done)

    assert (await shop.job(job)).state is State.SUCCEEDED
    assert sorted(n for n, _ in hall.began) == [0, 1]
    (first, *_) = await shop.engine.attempts(job)
    assert first.failure is not None
    assert isinstance(first.failure.death, Death)
    assert first.failure.death.beside == 1


async def test_a_job_with_which_workers_go_on_vanishing_waits_before_it_runs_again(
    shop: Workshop,
):
    hall = Hall(shop)
    job = await shop.submit("wait", {"n": 0})
    await shop.submit("wait", {"n": 1})
    await lost(shop, job, 5, beside=1)
    vanished_at = shop.clock.now()
    for n in (0, 1):
        hall.door(n).set()

    worker = shop.worker()
    async with shop.working(worker):
        await eventually(lambda: worker.stats.snoozed == 2)
        waiting, began = await shop.job(job), list(hall.began)

    assert (waiting.state, waiting.crashes, waiting.failures) == (State.SCHEDULED, 5, 0)
    assert waiting.run_at == vanished_at + 2 * SECOND
    assert began == []


async def test_a_job_with_three_lapses_begins_when_its_start_is_stored(shop: Workshop):
    seen: list[tuple[bool, int]] = []

    async def look(_: Any) -> None:
        job = await shop.engine.get(lapsed)
        seen.append((job.started_at is not None, job.lapses))

    shop.task("wait", look)
    lapsed = await shop.submit("wait")
    await lost(shop, lapsed, 3, is_known=False)

    await within(shop.work())

    assert seen == [(True, 3)]
    job = await shop.job(lapsed)
    assert (job.state, job.attempt, job.crashes) == (State.SUCCEEDED, 1, 0)


async def test_of_several_suspects_one_runs_and_the_others_are_put_off_uncharged(
    shop: Workshop,
):
    hall = Hall(shop)
    jobs = [await shop.submit("wait", {"n": n}) for n in range(3)]
    await lost(shop, jobs[0], 2, beside=2)

    worker = shop.worker()
    async with shop.working(worker):
        await hall.entered(0)
        await eventually(lambda: worker.stats.snoozed == 2)
        others = [await shop.job(one) for one in jobs[1:]]

    assert {one.state for one in others} == {State.SCHEDULED}
    assert {(one.attempt, one.failures, one.crashes) for one in others} == {(2, 0, 2)}
    delays = [one.run_at - shop.clock.now() for one in others]
    assert 0 < delays[0] < delays[1] <= 3 * SECOND


async def test_a_worker_that_leaves_gives_back_what_waits_to_be_alone(shop: Workshop):
    async with kept_waiting(shop) as (hall, worker, suspect):
        worker.drain()
        hall.door(1).set()

    job = await shop.job(suspect)
    assert (job.state, job.crashes, job.failures) == (State.READY, 2, 0)
    assert [n for n, _ in hall.began] == [1]


async def test_a_job_that_waits_to_be_alone_can_be_cancelled(shop: Workshop):
    async with kept_waiting(shop) as (hall, worker, suspect):
        await shop.engine.change("cancel", [suspect], reason="enough")
        await eventually(lambda: worker.stats.cancelled == 1)

    assert (await shop.job(suspect)).state is State.CANCELLED
    assert [n for n, _ in hall.began] == [1]


async def test_a_program_runs_suspects_of_built_in_tasks_in_children_and_its_own_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """A child can import the built-in tasks; what the program itself has set up it cannot."""
    app = Longshore(f"sqlite:///{tmp_path}/jobs.db", settings=Settings())
    ran: list[int] = []

    @app.task
    async def mine() -> None:
        ran.append(os.getpid())

    async with app:
        own, builtin = await mine.submit(), await app.submit("noop")
        for job in (own, builtin):
            await crashed_alone(app, job, 2)
        with caplog.at_level("INFO", logger="longshore.worker"):
            await app.work(until_idle=True)
        ended = [await one.get() for one in (own, builtin)]

    assert [(one.state, one.crashes) for one in ended] == [(State.SUCCEEDED, 2)] * 2
    assert ran == [os.getpid()]
    alone = [vars(one) for one in caplog.records if one.message == "job waits to run alone"]
    assert [one["type"] for one in alone] == ["mine"]


async def crashed_alone(app: Longshore, job: JobHandle[Any], times: int) -> None:
    """So many workers vanish while they run this job and nothing else."""
    it = await job.get()
    for _ in range(times):
        worker = await a_worker(app.engine, types=[it.type])
        (claim,) = await worker.claim()
        await worker.start(claim)
        held = await app.engine.held(worker.session.token)
        await app.engine.end_session(worker.session.token, unreported(held or []))
