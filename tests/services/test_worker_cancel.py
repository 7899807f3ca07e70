"""Cancel: a running handler is told at once, and its task may do something about it."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from workshop import Workshop, open_workshop, within

from longshore.core.job import Job, JobId
from longshore.core.state import State
from longshore.directives import Cancel
from longshore.job_context import current_job
from longshore.testing.factories import SECOND
from longshore.testing.harness import eventually
from longshore.worker import hooks
from longshore.worker.registry import Hook
from longshore.worker.worker import Worker


@pytest.fixture
async def shop() -> AsyncIterator[Workshop]:
    async with open_workshop() as shop:
        yield shop


class Stage:
    """A task that hangs until it is cancelled, and what its hooks were given."""

    def __init__(self, shop: Workshop) -> None:
        self.shop = shop
        self.entered = asyncio.Event()
        self.cancelled: list[Any] = []

    async def hang(self, _: Any) -> None:
        self.entered.set()
        await asyncio.Event().wait()

    async def is_cancelled(self, job_id: JobId) -> bool:
        return (await self.shop.job(job_id)).state is State.CANCELLED

    async def cancel_running(self, job_id: JobId) -> None:
        await within(self.entered.wait())
        await self.shop.engine.change("cancel", [job_id], reason="no longer needed")


@pytest.fixture
def stage(shop: Workshop) -> Stage:
    return Stage(shop)


@pytest.mark.parametrize("concurrency", [1, 8])
async def test_a_cancel_reaches_a_worker_by_its_wake_up_however_busy_it_is(
    shop: Workshop, stage: Stage, concurrency: int
):
    shop.task("hang", stage.hang)
    job_id = await shop.submit("hang")

    worker = shop.worker(concurrency=concurrency, lease=timedelta(hours=1))
    fetcher = worker._fetcher
    fetcher._contact = fetcher._poll = 3_600.0
    async with shop.working(worker):
        await within(stage.entered.wait())
        # Without a wake-up it would have nothing to say for long.
        await eventually(lambda: fetcher._delay() > 60.0)
        await stage.cancel_running(job_id)
        await eventually(lambda: stage.is_cancelled(job_id))

    job = await shop.job(job_id)
    assert (job.reason, job.failures) == ("no longer needed", 0)


async def test_without_a_wake_up_the_next_contact_tells(shop: Workshop, stage: Stage):
    shop.task("hang", stage.hang)
    job_id = await shop.submit("hang")

    worker = shop.worker(concurrency=1)
    async with shop.working(worker):
        await within(stage.entered.wait())
        assert worker._fetcher._attendant is not None
        worker._fetcher._attendant.cancel()
        await stage.cancel_running(job_id)
        await eventually(lambda: stage.is_cancelled(job_id))


async def test_a_hook_gets_the_jobs_arguments_once_the_queue_has_it_as_cancelled(
    shop: Workshop, stage: Stage
):
    async def clean_up(arguments: Any) -> None:
        job = current_job()
        stored = await shop.job(ids[0])
        stage.cancelled.append((arguments, job.id, stored.state))

    shop.task("hang", stage.hang, on_cancelled=(Hook(clean_up, is_async=True),))
    ids = [await shop.submit("hang", {"path": "/tmp/x"})]

    async with shop.working():
        await stage.cancel_running(ids[0])
        await eventually(lambda: stage.cancelled)

    ((arguments, _, state),) = stage.cancelled
    assert (arguments, state) == ({"path": "/tmp/x"}, State.CANCELLED)


async def test_a_plain_hook_runs_in_a_thread(shop: Workshop, stage: Stage):
    def clean_up(arguments: Any) -> None:
        stage.cancelled.append((current_job().id, threading.current_thread().name))

    shop.task("hang", stage.hang, on_cancelled=(Hook(clean_up, is_async=False),))
    job_id = await shop.submit("hang")

    async with shop.working():
        await stage.cancel_running(job_id)
        await eventually(lambda: stage.cancelled)

    ((_, thread),) = stage.cancelled
    assert thread == "longshore-hook"


async def test_what_hooks_raise_is_logged_and_changes_nothing(
    shop: Workshop, stage: Stage, caplog: pytest.LogCaptureFixture
):
    async def fail(_: Any) -> None:
        raise SystemExit("no")

    def fail_too(_: Any) -> None:
        raise StopIteration("neither")

    async def fine(_: Any) -> None:
        stage.cancelled.append("fine")

    wrong = (Hook(fail, is_async=True), Hook(fail_too, is_async=False))
    shop.task("hang", stage.hang, on_cancelled=(*wrong, Hook(fine, is_async=True)))
    job_id = await shop.submit("hang")

    async with shop.working():
        await stage.cancel_running(job_id)
        await eventually(lambda: stage.cancelled)

    failed = [one for one in caplog.records if one.message == "cancelled hook failed"]
    assert [one.__dict__["error"] for one in failed] == [
        "SystemExit: no",
        "StopIteration: neither",
    ]
    assert (await shop.job(job_id)).state is State.CANCELLED


async def test_a_hook_that_hangs_is_given_up(
    shop: Workshop,
    stage: Stage,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(hooks, "_LONGEST", 0.01)

    async def hang(_: Any) -> None:
        stage.cancelled.append("hangs")
        await asyncio.Event().wait()

    shop.task("hang", stage.hang, on_cancelled=(Hook(hang, is_async=True),))
    job_id = await shop.submit("hang")

    async with shop.working() as worker:
        await stage.cancel_running(job_id)
        await eventually(lambda: stage.cancelled and not worker._settler.hooks.is_busy)

    (failed,) = [one for one in caplog.records if one.message == "cancelled hook failed"]
    assert failed.__dict__["error"].startswith("TimeoutError")


async def test_a_worker_that_is_to_leave_when_idle_waits_for_its_hooks(
    shop: Workshop, stage: Stage
):
    async def stop(_: Any) -> None:
        raise Cancel("superseded")

    async def clean_up(_: Any) -> None:
        await asyncio.sleep(0.02)
        stage.cancelled.append("done")

    shop.task("stop", stop, on_cancelled=(Hook(clean_up, is_async=True),))
    job_id = await shop.submit("stop")

    await shop.work()

    assert await stage.is_cancelled(job_id)
    assert stage.cancelled == ["done"]


async def test_no_hook_runs_for_a_job_that_never_ran(shop: Workshop, stage: Stage):
    async def clean_up(arguments: Any) -> None:
        stage.cancelled.append(arguments)

    hook = (Hook(clean_up, is_async=True),)
    shop.task("hang", stage.hang, on_cancelled=hook)
    first, second = await shop.submit("hang"), await shop.submit("hang")

    async with shop.working(shop.worker(concurrency=1)):
        await within(stage.entered.wait())
        await shop.engine.change("cancel", [second], reason="not this one")
        await stage.cancel_running(first)
        await eventually(lambda: stage.cancelled)
        assert await stage.is_cancelled(second)

    assert len(stage.cancelled) == 1


async def test_no_hook_runs_for_a_handler_that_returned_all_the_same(
    shop: Workshop, stage: Stage
):
    async def finish(_: Any) -> None:
        stage.entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return

    async def clean_up(arguments: Any) -> None:
        stage.cancelled.append(arguments)

    shop.task("finish", finish, on_cancelled=(Hook(clean_up, is_async=True),))
    job_id = await shop.submit("finish")

    async with shop.working():
        await stage.cancel_running(job_id)

        async def has_ended() -> bool:
            return (await shop.job(job_id)).state is State.SUCCEEDED

        await eventually(has_ended)

    assert stage.cancelled == []


class Stubborn:
    """A handler that swallows every cancellation until it is let go."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.swallowed = 0
        self.let_go = asyncio.Event()

    async def run(self, _: Any) -> None:
        self.stage.entered.set()
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                self.swallowed += 1

    async def clean_up(self, _: Any) -> None:
        self.stage.cancelled.append("hook")

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[Worker]:
        """In a worker of many rooms: one of few would be worn out by the loss of one."""
        shop = self.stage.shop
        async with shop.working(shop.worker(concurrency=20)) as worker:
            try:
                yield worker
            finally:
                self.let_go.set()

    async def ended(self, job_id: JobId) -> Job:
        """The job, once it has ended, with time passing meanwhile."""
        shop = self.stage.shop

        async def has_ended() -> bool:
            shop.clock.advance(SECOND // 2)
            return (await shop.job(job_id)).finished_at is not None

        await eventually(has_ended)
        return await shop.job(job_id)


@pytest.fixture
def stubborn(stage: Stage) -> Stubborn:
    stubborn = Stubborn(stage)
    hook = Hook(stubborn.clean_up, is_async=True)
    stage.shop.task("stubborn", stubborn.run, on_cancelled=(hook,))
    return stubborn


async def test_a_coroutine_that_swallows_its_cancel_ends_cancelled_all_the_same(
    shop: Workshop, stage: Stage, stubborn: Stubborn
):
    job_id = await shop.submit("stubborn")

    async with stubborn.at_work():
        await stage.cancel_running(job_id)
        job = await stubborn.ended(job_id)
        await eventually(lambda: stage.cancelled)

    assert (job.state, stubborn.swallowed) == (State.CANCELLED, 5)
    assert (job.started_at or 0) < (job.finished_at or 0) <= shop.clock.now()
    assert stage.cancelled == ["hook"]


async def test_a_coroutine_that_swallows_its_timeout_is_charged_all_the_same(
    shop: Workshop, stage: Stage, stubborn: Stubborn
):
    job_id = await shop.submit("stubborn", timeout=2 * SECOND, max_attempts=1)

    async with stubborn.at_work():
        await within(stage.entered.wait())
        job = await stubborn.ended(job_id)

    assert (job.state, job.failures, stubborn.swallowed) == (State.DEAD, 1, 5)
    assert (job.started_at or 0) < (job.finished_at or 0) <= shop.clock.now()
    assert stage.cancelled == []


async def test_the_room_of_a_handler_that_heeds_nothing_goes_to_others(
    shop: Workshop, stage: Stage, stubborn: Stubborn
):
    async def fine(_: Any) -> None:
        return None

    shop.task("fine", fine)
    job_id = await shop.submit("stubborn")

    async with stubborn.at_work() as worker:
        await stage.cancel_running(job_id)
        worker._slots.free, taken = 0, worker._slots.free
        await stubborn.ended(job_id)
        await eventually(lambda: worker._slots.free == 1)
        await shop.submit("fine")
        await eventually(lambda: worker.stats.succeeded == 1)
        worker._slots.free += taken
        stubborn.let_go.set()
        await eventually(lambda: not worker._slots.attempts())
        free = worker._slots.free

    assert free == worker._slots.rooms


async def test_a_thread_learns_of_a_cancel_when_it_asks(shop: Workshop, stage: Stage):
    loop = asyncio.get_running_loop()
    asked = threading.Event()

    def work(_: Any) -> None:
        loop.call_soon_threadsafe(stage.entered.set)
        while not current_job().is_cancel_requested:
            asked.wait(0.01)
        raise InterruptedError("told to stop")

    shop.task("work", work)
    job_id = await shop.submit("work")

    async with shop.working():
        await stage.cancel_running(job_id)
        await eventually(lambda: stage.is_cancelled(job_id))

    assert (await shop.job(job_id)).failures == 0
