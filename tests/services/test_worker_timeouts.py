"""Timeouts: an attempt has its time, and a handler that does not stop is not waited for."""

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from workshop import Workshop, ended, open_workshop, within

from longshore.core.state import State
from longshore.job_context import current_job
from longshore.testing.factories import SECOND
from longshore.testing.harness import eventually
from longshore.worker.attempt import Stop
from longshore.worker.shutdown import Ending


@pytest.fixture
async def shop() -> AsyncIterator[Workshop]:
    async with open_workshop() as shop:
        yield shop


async def test_a_coroutine_past_its_timeout_is_cancelled_and_charged(shop: Workshop):
    cancelled = asyncio.Event()

    async def hang(_: Any) -> None:
        shop.clock.advance(2 * SECOND)
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    shop.task("hang", hang)
    job_id = await shop.submit("hang", timeout=SECOND)

    worker = await shop.work()

    job = await shop.job(job_id)
    assert cancelled.is_set()
    assert (job.state, job.failures) == (State.SCHEDULED, 1)
    assert job.failure is not None
    assert (job.failure.kind, job.failure.message) == ("timeout", "ran longer than 1 s")
    assert "in hang" in job.failure.traceback
    assert (worker.stats.timeouts, worker.stats.failed) == (1, 1)


async def test_a_coroutine_in_time_is_left_alone(shop: Workshop):
    async def work(_: Any) -> None:
        shop.clock.advance(SECOND)
        await asyncio.sleep(0.12)

    shop.task("work", work)
    timed = await shop.submit("work", timeout=3 * SECOND)
    untimed = await shop.submit("work", timeout=None)

    await shop.work(concurrency=1)

    assert (await shop.job(timed)).state is State.SUCCEEDED
    assert (await shop.job(untimed)).state is State.SUCCEEDED


async def test_a_coroutine_that_swallows_the_cancellation_is_cancelled_again(shop: Workshop):
    cancellations = 0

    async def stubborn(_: Any) -> None:
        nonlocal cancellations
        shop.clock.advance(2 * SECOND)
        while cancellations < 3:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancellations += 1
                shop.clock.advance(2 * SECOND)

    shop.task("stubborn", stubborn)
    job_id = await shop.submit("stubborn", timeout=SECOND)

    await shop.work()

    job = await shop.job(job_id)
    assert cancellations == 3
    assert (job.state, job.failures) == (State.SCHEDULED, 1)
    assert job.failure is not None
    assert job.failure.kind == "timeout"


async def test_a_coroutine_that_swallows_a_cancel_is_told_again(shop: Workshop):
    entered = asyncio.Event()
    cancellations = 0

    async def stubborn(_: Any) -> None:
        nonlocal cancellations
        while cancellations < 2:
            try:
                entered.set()
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancellations += 1
                shop.clock.advance(2 * SECOND)

    shop.task("stubborn", stubborn)
    await shop.submit("stubborn")

    async with shop.working() as worker:
        await within(entered.wait())
        (attempt,) = worker._slots.attempts()
        shop.clock.advance(SECOND)
        await eventually(lambda: attempt.is_start_known)
        worker._slots.stop([attempt.reference], Stop.CANCEL)
        await eventually(lambda: cancellations == 2)


async def test_the_slot_of_a_job_that_timed_out_serves_the_next_one(shop: Workshop):
    async def hang(_: Any) -> None:
        shop.clock.advance(2 * SECOND)
        await asyncio.Event().wait()

    async def fine(_: Any) -> None:
        await asyncio.sleep(0)

    shop.task("hang", hang)
    shop.task("fine", fine)
    await shop.submit("hang", timeout=SECOND, max_attempts=1)
    for _ in range(5):
        await shop.submit("fine")

    worker = await shop.work(concurrency=1)

    assert (worker.stats.dead, worker.stats.succeeded) == (1, 5)


async def test_a_thread_past_its_timeout_is_told_and_settled_when_it_has_ended(shop: Workshop):
    go_on = threading.Event()
    told: list[bool] = []

    def slow(_: Any) -> None:
        shop.clock.advance(2 * SECOND)
        go_on.wait(10)
        told.append(current_job().is_cancel_requested)

    shop.task("slow", slow)
    job_id = await shop.submit("slow", timeout=SECOND)
    worker = shop.worker()
    running = asyncio.create_task(worker.run(until_idle=True))

    async def is_told() -> bool:
        return any(one.cancel_requested for one in worker._slots.attempts())

    await eventually(is_told)
    before = await shop.job(job_id)
    go_on.set()
    await within(running)

    after = await shop.job(job_id)
    assert (before.state, before.failures) == (State.RUNNING, 0)
    assert told == [True]
    assert (after.state, after.failures) == (State.SCHEDULED, 1)
    assert after.failure is not None
    assert after.failure.kind == "timeout"


async def test_a_worker_whose_threads_do_not_come_back_leaves_for_a_fresh_one(shop: Workshop):
    go_on = threading.Event()

    def hang(_: Any) -> None:
        go_on.wait(10)

    async def fine(_: Any) -> None:
        return None

    shop.task("hang", hang)
    shop.task("fine", fine)
    hanging = await shop.submit("hang", timeout=SECOND)

    worker = shop.worker(concurrency=4, drain_timeout=timedelta(hours=1))
    ending = await ended(worker.run(), shop.clock)
    go_on.set()

    job = await shop.job(hanging)
    assert ending is Ending.WORN_OUT
    assert (job.state, job.failures) == (State.SCHEDULED, 1)
    assert job.failure is not None
    assert job.failure.kind == "timeout"


async def test_one_lost_thread_of_many_is_no_reason_to_leave(shop: Workshop):
    go_on = threading.Event()
    shop.task("hang", lambda _: go_on.wait(10))
    await shop.submit("hang", timeout=SECOND)

    async with shop.working(shop.worker(concurrency=64)) as worker:
        await eventually(lambda: worker._slots.attempts())
        for _ in range(20):
            shop.clock.advance(SECOND)
            await worker._sweep.tick()
        is_leaving = worker._departure.ending
        go_on.set()

    assert is_leaving is None
