"""Leaving: what runs may finish, what has not started goes back, nothing is charged."""

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from workshop import Workshop, ended, open_workshop, within

from longshore.core.state import State
from longshore.directives import Snooze
from longshore.errors import LongshoreError
from longshore.testing.factories import MINUTE, SECOND
from longshore.testing.harness import eventually
from longshore.worker.shutdown import Ending


@pytest.fixture
async def shop() -> AsyncIterator[Workshop]:
    async with open_workshop() as shop:
        yield shop


class Line:
    """A handler whose jobs wait until they are let go."""

    def __init__(self, shop: Workshop) -> None:
        self.entered = asyncio.Event()
        self.open = asyncio.Event()
        self.started: list[int] = []
        shop.task("wait", self.wait)

    async def wait(self, arguments: Any) -> None:
        self.started.append(arguments["n"])
        self.entered.set()
        await within(self.open.wait())


async def test_a_drain_lets_running_jobs_finish_and_gives_back_the_rest(shop: Workshop):
    line = Line(shop)
    first = await shop.submit("wait", {"n": 0})
    worker = shop.worker(concurrency=1)
    worker._fetcher._pace._rate = 1_000.0  # so that it holds jobs in advance
    later = [await shop.submit("wait", {"n": number}) for number in range(1, 6)]

    running = asyncio.create_task(worker.run())
    await within(line.entered.wait())
    held = worker._slots.waiting
    worker.drain()
    await eventually(lambda: worker.stats.released == 5)
    line.open.set()
    ending = await within(running)

    assert ending is Ending.DRAINED
    assert held == 5
    assert (await shop.job(first)).state is State.SUCCEEDED
    given_back = [await shop.job(one) for one in later]
    assert {(one.state, one.failures, one.attempt) for one in given_back} == {
        (State.READY, 0, 0)
    }
    assert line.started == [0]


async def test_a_drain_claims_nothing_more(shop: Workshop):
    line = Line(shop)
    await shop.submit("wait", {"n": 0})
    worker = shop.worker()

    running = asyncio.create_task(worker.run())
    await within(line.entered.wait())
    worker.drain()
    after = await shop.submit("wait", {"n": 1})
    worker.nudge()
    line.open.set()
    await within(running)

    assert (await shop.job(after)).delivery == 0


async def test_jobs_that_arrive_after_the_drain_began_go_back_unstarted(shop: Workshop):
    line = Line(shop)
    worker = shop.worker()

    running = asyncio.create_task(worker.run())
    await eventually(lambda: worker.stats.exchanges)
    shop.flaky.hang()
    job_id = await shop.submit("wait", {"n": 0})
    before = shop.flaky.calls.count("exchange")
    worker.nudge()
    await eventually(lambda: shop.flaky.calls.count("exchange") > before)
    worker.drain()
    shop.flaky.come_back()
    await within(running)

    job = await shop.job(job_id)
    assert (job.state, job.delivery, job.attempt) == (State.READY, 1, 0)
    assert line.started == []


async def test_what_still_runs_at_the_drain_deadline_goes_back_uncharged(shop: Workshop):
    line = Line(shop)
    job_id = await shop.submit("wait", {"n": 0})
    worker = shop.worker(drain_timeout=timedelta(seconds=2))

    running = asyncio.create_task(worker.run())
    await within(line.entered.wait())
    asked = shop.clock.monotonic()
    worker.drain()
    await ended(running, shop.clock)

    job = await shop.job(job_id)
    assert (job.state, job.failures, job.attempt) == (State.READY, 0, 1)
    assert 2.0 <= shop.clock.monotonic() - asked <= 3.0


async def test_a_handler_that_is_stopped_by_a_drain_may_still_wish(shop: Workshop):
    entered = asyncio.Event()

    async def careful(_: Any) -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise Snooze(60) from None

    shop.task("careful", careful)
    job_id = await shop.submit("careful")
    worker = shop.worker()

    running = asyncio.create_task(worker.run())
    await within(entered.wait())
    worker.stop_now()
    await ended(running, shop.clock)

    job = await shop.job(job_id)
    assert (job.state, job.failures) == (State.SCHEDULED, 0)
    assert job.run_at > shop.clock.now() + MINUTE - 3 * SECOND


async def test_a_handler_that_ends_while_it_is_being_stopped_has_succeeded(shop: Workshop):
    entered = asyncio.Event()

    async def stubborn(_: Any) -> str:
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done all the same"
        return "never"

    shop.task("stubborn", stubborn)
    job_id = await shop.submit("stubborn")
    worker = shop.worker()

    running = asyncio.create_task(worker.run())
    await within(entered.wait())
    worker.stop_now()
    await ended(running, shop.clock)

    job = await shop.job(job_id)
    assert (job.state, job.result) == (State.SUCCEEDED, b'"done all the same"')


async def test_a_thread_that_does_not_end_is_left_behind_and_its_job_goes_back(shop: Workshop):
    entered, go_on = threading.Event(), threading.Event()

    def slow(_: Any) -> None:
        entered.set()
        go_on.wait(10)

    shop.task("slow", slow)
    job_id = await shop.submit("slow")
    worker = shop.worker()

    running = asyncio.create_task(worker.run())
    await eventually(entered.is_set)
    worker.stop_now()
    await ended(running, shop.clock)
    go_on.set()

    job = await shop.job(job_id)
    assert (job.state, job.failures, job.attempt) == (State.READY, 0, 1)


async def test_stopping_now_overtakes_a_drain(shop: Workshop):
    line = Line(shop)
    await shop.submit("wait", {"n": 0})
    worker = shop.worker(drain_timeout=timedelta(hours=1))

    running = asyncio.create_task(worker.run())
    await within(line.entered.wait())
    worker.drain()
    worker.stop_now()
    before = shop.clock.monotonic()
    await ended(running, shop.clock)

    assert shop.clock.monotonic() - before < 1.5


async def test_cancelling_the_run_settles_what_has_ended(shop: Workshop):
    done, line = asyncio.Event(), Line(shop)

    async def quick(_: Any) -> None:
        done.set()

    shop.task("quick", quick)
    quick_id = await shop.submit("quick")
    waiting_id = await shop.submit("wait", {"n": 0})
    # Nothing is flushed on its own: only leaving can settle the quick job.
    worker = shop.worker(flush_batch=100, flush_after=timedelta(minutes=1))

    running = asyncio.create_task(worker.run())
    await within(asyncio.gather(done.wait(), line.entered.wait()))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ended(running, shop.clock)  # type: ignore[arg-type]

    assert (await shop.job(quick_id)).state is State.SUCCEEDED
    waiting = await shop.job(waiting_id)
    assert (waiting.state, waiting.failures) == (State.READY, 0)


async def test_a_worker_that_is_asked_to_be_quiet_drains(shop: Workshop):
    line = Line(shop)
    await shop.submit("wait", {"n": 0})
    worker = shop.worker()

    running = asyncio.create_task(worker.run())
    await within(line.entered.wait())
    (session,) = (await shop.engine.sessions()).sessions
    await shop.engine.drain_session(session.token)
    await worker._renewer.tick()
    line.open.set()

    assert await within(running) is Ending.DRAINED


async def test_a_worker_leaves_in_time_although_the_engine_is_gone(shop: Workshop):
    line = Line(shop)
    await shop.submit("wait", {"n": 0})
    worker = shop.worker(drain_timeout=timedelta(milliseconds=200))

    running = asyncio.create_task(worker.run())
    await within(line.entered.wait())
    shop.flaky.go_down()
    asked = shop.clock.monotonic()
    worker.drain()
    await ended(running, shop.clock, step=20_000)

    assert shop.clock.monotonic() - asked < 1.7


async def test_a_worker_leaves_in_time_although_it_never_had_a_session(shop: Workshop):
    Line(shop)
    shop.flaky.go_down()
    worker = shop.worker(drain_timeout=timedelta(seconds=1))

    running = asyncio.create_task(worker.run())
    await eventually(lambda: worker.stats.resent)
    worker.drain()

    assert await ended(running, shop.clock) is Ending.DRAINED


async def test_a_session_ends_with_its_worker(shop: Workshop):
    Line(shop)

    await shop.work()

    assert (await shop.engine.sessions()).sessions == []


async def test_a_worker_runs_once(shop: Workshop):
    Line(shop)
    worker = await shop.work()

    with pytest.raises(LongshoreError):
        await worker.run()
