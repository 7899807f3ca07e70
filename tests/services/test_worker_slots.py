"""Slots: how many jobs run at once, and what one job can see of another: nothing."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any

import pytest
from workshop import Workshop, open_workshop, within

from longshore.core.state import State
from longshore.errors import LongshoreError
from longshore.job_context import current_job
from longshore.runtime.clock import SystemClock
from longshore.testing.harness import eventually
from longshore.worker.attempt import Stop
from longshore.worker.lease import NEVER
from longshore.worker.slots import Slots
from longshore.worker.threads import Threads

MARK: ContextVar[str] = ContextVar("mark", default="nothing")
UNSET: ContextVar[str] = ContextVar("unset")
ANYTHING: ContextVar[object] = ContextVar("anything")


class Incomparable:
    def __eq__(self, other: object) -> bool:
        raise TypeError("ask me not")

    __hash__ = None  # type: ignore[assignment]


@pytest.fixture
async def shop() -> AsyncIterator[Workshop]:
    async with open_workshop() as shop:
        yield shop


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_no_more_jobs_run_at_once_than_there_are_slots(shop: Workshop, concurrency: int):
    running = most = 0

    async def count(_: Any) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    shop.task("count", count)
    for _ in range(20):
        await shop.submit("count")

    await shop.work(concurrency=concurrency)

    assert most == concurrency


async def test_coroutines_and_threads_share_the_slots(shop: Workshop):
    lock = threading.Lock()
    running = most = 0

    def change(by: int) -> None:
        nonlocal running, most
        with lock:
            running += by
            most = max(most, running)

    async def on_loop(_: Any) -> None:
        change(1)
        await asyncio.sleep(0.001)
        change(-1)

    def in_thread(_: Any) -> None:
        change(1)
        change(-1)

    shop.task("loop", on_loop)
    shop.task("thread", in_thread)
    for number in range(60):
        await shop.submit("loop" if number % 2 else "thread")

    worker = await shop.work(concurrency=4)

    assert most <= 4
    assert worker.stats.succeeded == 60


async def test_plain_functions_run_in_no_more_threads_than_allowed(shop: Workshop):
    threads: set[str] = set()
    shop.task("note", lambda _: threads.add(threading.current_thread().name))
    for _ in range(50):
        await shop.submit("note")

    worker = await shop.work(concurrency=16, threads=2)

    assert worker.stats.succeeded == 50
    assert 1 <= len(threads) <= 2
    assert threading.current_thread().name not in threads


async def test_a_long_job_does_not_hold_up_the_others(shop: Workshop):
    go_on = asyncio.Event()
    others = 0

    async def long(_: Any) -> None:
        await within(go_on.wait())

    async def short(_: Any) -> None:
        nonlocal others
        others += 1
        if others == 30:
            go_on.set()

    shop.task("long", long)
    shop.task("short", short)
    await shop.submit("long")
    for _ in range(30):
        await shop.submit("short")

    worker = await shop.work(concurrency=2)

    assert worker.stats.succeeded == 31


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_context_variable_set_by_a_handler_is_gone_for_the_next_job(
    shop: Workshop, kind: str
):
    seen: list[tuple[str, str]] = []

    def look(_: Any) -> None:
        seen.append((MARK.get(), UNSET.get("nothing")))
        MARK.set("mine")
        UNSET.set("mine")

    async def look_async(arguments: Any) -> None:
        look(arguments)
        await asyncio.sleep(0)

    shop.task("look", look if kind == "thread" else look_async)
    for _ in range(5):
        await shop.submit("look")

    await shop.work(concurrency=1)

    assert seen == [("nothing", "nothing")] * 5


async def test_a_value_that_cannot_be_compared_does_not_leak_either(shop: Workshop):
    mine = Incomparable()
    seen: list[bool] = []

    async def replace(_: Any) -> None:
        seen.append(ANYTHING.get() is mine)
        ANYTHING.set(Incomparable())

    shop.task("replace", replace)
    for _ in range(3):
        await shop.submit("replace")
    token = ANYTHING.set(mine)

    worker = await shop.work(concurrency=1)
    ANYTHING.reset(token)

    assert seen == [True] * 3
    assert worker.stats.succeeded == 3


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_handler_sees_the_context_in_which_the_worker_was_run(
    shop: Workshop, kind: str
):
    seen: list[str] = []

    async def look(_: Any) -> None:
        seen.append(MARK.get())

    shop.task("look", look if kind == "async" else lambda _: seen.append(MARK.get()))
    await shop.submit("look")
    token = MARK.set("the application's")

    await shop.work()
    MARK.reset(token)

    assert seen == ["the application's"]


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_handler_can_ask_which_job_it_runs_for(shop: Workshop, kind: str):
    seen: dict[int, int] = {}

    def note(arguments: Any) -> None:
        seen[arguments["n"]] = int(current_job().tags[0])

    async def note_async(arguments: Any) -> None:
        await asyncio.sleep(0)
        note(arguments)

    shop.task("note", note if kind == "thread" else note_async)
    for number in range(20):
        await shop.submit("note", {"n": number}, tags=(str(number),))

    await shop.work(concurrency=5)

    assert seen == {number: number for number in range(20)}


async def test_a_task_left_behind_by_a_handler_still_knows_its_own_job(shop: Workshop):
    release = asyncio.Event()
    left: list[asyncio.Task[int]] = []

    async def linger() -> int:
        await release.wait()
        return int(current_job().tags[0])

    async def leave(_: Any) -> None:
        left.append(asyncio.create_task(linger()))

    shop.task("leave", leave)
    for number in range(3):
        await shop.submit("leave", tags=(str(number),))

    await shop.work(concurrency=1)
    release.set()

    assert await within(asyncio.gather(*left)) == [0, 1, 2]


async def test_outside_of_a_handler_there_is_no_current_job(shop: Workshop):
    async def nothing(_: Any) -> None:
        return None

    shop.task("nothing", nothing)
    await shop.submit("nothing")

    await shop.work()

    with pytest.raises(LongshoreError):
        current_job()


async def test_a_handler_that_cancels_its_own_task_does_not_cancel_the_next_job(shop: Workshop):
    async def cancel_self(_: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    async def wait(_: Any) -> None:
        await asyncio.sleep(0)

    shop.task("cancel", cancel_self)
    shop.task("wait", wait)
    for _ in range(3):
        await shop.submit("cancel")
        await shop.submit("wait")

    worker = await shop.work(concurrency=1)

    assert (worker.stats.succeeded, worker.stats.failed) == (6, 0)


@pytest.mark.parametrize("concurrency", [1, 8])
async def test_jobs_that_never_wait_leave_the_loop_time_for_others(concurrency: int):
    run = most = 0
    is_over = False

    async def toil(_: Any) -> None:
        nonlocal run
        run += 1
        begun = time.monotonic()
        while time.monotonic() < begun + 0.001:
            pass

    async def observer() -> None:
        nonlocal run, most
        while not is_over:
            most, run = max(most, run), 0
            await asyncio.sleep(0)

    async with open_workshop(SystemClock()) as shop:
        shop.task("toil", toil)
        for _ in range(100):
            await shop.submit("toil")
        worker = shop.worker(concurrency=concurrency)
        worker._fetcher._pace._rate = 2_000.0  # so that it holds them all at once
        observing = asyncio.create_task(observer())

        await within(worker.run(until_idle=True))
        is_over = True
        await within(observing)

    # Two turns of 4 ms at most, and one job for each slot that came through the loop.
    assert most <= 10 + concurrency


@pytest.mark.parametrize("jobs", [1, 2, 5, 20])
async def test_no_more_slots_are_called_than_there_are_jobs_for_them(shop: Workshop, jobs: int):
    entered = 0
    go_on = asyncio.Event()

    async def wait(_: Any) -> None:
        nonlocal entered
        entered += 1
        if entered == jobs:
            go_on.set()
        await within(go_on.wait())

    shop.task("wait", wait)
    for _ in range(jobs):
        await shop.submit("wait")
    worker = shop.worker(concurrency=64)

    async with shop.working(worker):
        await eventually(lambda: worker.stats.succeeded == jobs)

        assert len(worker._slots._slots) == jobs


async def test_the_room_of_a_job_that_was_lost_is_filled_again_at_once(shop: Workshop):
    entered: list[int] = []

    async def wait(arguments: Any) -> None:
        entered.append(arguments["n"])
        await within(asyncio.Event().wait())

    shop.task("wait", wait)
    for number in range(2):
        await shop.submit("wait", {"n": number})
    worker = shop.worker(concurrency=1)
    worker._fetcher._contact = 60.0

    async with shop.working(worker):
        await eventually(lambda: entered == [0])
        worker._slots.stop(worker._slots.references(), Stop.LOST)
        await eventually(lambda: entered == [0, 1], within=5.0)


async def test_a_thread_gets_its_room_though_coroutines_wait_for_it_too(shop: Workshop):
    order: list[str] = []

    async def on_loop(_: Any) -> None:
        if not order:
            await eventually(lambda: worker._slots.waiting == 15)
        order.append("loop")

    shop.task("loop", on_loop)
    shop.task("thread", lambda _: order.append("thread"))
    for _ in range(15):
        await shop.submit("loop")
    await shop.submit("thread")
    worker = shop.worker(concurrency=1, claim_batch=15)
    # So that it holds all of them, and claims the last while the first runs.
    worker._fetcher._pace._rate, worker._fetcher._pace._since = 1_000.0, NEVER

    async with shop.working(worker):
        await eventually(lambda: len(order) == 16)

    assert order.index("thread") == 1


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_fault_of_the_worker_itself_is_loud(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch, kind: str
):
    async def broken_slot(*_: Any) -> None:
        raise ZeroDivisionError("a bug of ours")

    def broken_thread(*_: Any) -> None:
        raise ZeroDivisionError("a bug of ours")

    async def noop(_: Any) -> None:
        return None

    monkeypatch.setattr(Slots, "_serve", broken_slot)
    monkeypatch.setattr(Threads, "_run", broken_thread)
    shop.task("noop", noop if kind == "async" else lambda _: None)
    job_id = await shop.submit("noop")

    with pytest.raises(ZeroDivisionError):
        await within(shop.worker().run())

    assert (await shop.job(job_id)).state is State.READY


async def test_what_a_job_has_left_behind_cannot_cancel_the_next_job_in_its_slot(
    shop: Workshop,
):
    async def leave_a_timer(_: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_later(0.02, task.cancel)

    async def stay(_: Any) -> None:
        await asyncio.sleep(0.1)

    shop.task("leave_a_timer", leave_a_timer)
    shop.task("stay", stay)
    await shop.submit("leave_a_timer")
    held = await shop.submit("stay", max_attempts=1)

    await shop.work(concurrency=1)

    assert (await shop.engine.get(held)).state is State.SUCCEEDED


async def test_a_job_that_cancels_another_is_charged_a_crash_and_the_other_succeeds(
    shop: Workshop,
):
    victim: list[asyncio.Task[Any] | None] = []

    async def stay(_: Any) -> None:
        victim.append(asyncio.current_task())
        await asyncio.sleep(0.1)

    async def meddle(_: Any) -> None:
        assert victim[0] is not None
        victim[0].cancel()

    shop.task("stay", stay)
    shop.task("meddle", meddle, max_crashes=1)
    stayed, meddled = await shop.submit("stay"), await shop.submit("meddle")

    await shop.work(concurrency=2)

    assert (await shop.engine.get(stayed)).state is State.SUCCEEDED
    guilty = await shop.engine.get(meddled)
    assert (guilty.state, guilty.reason) == (State.DEAD, "poison")
    assert (guilty.failures, guilty.crashes) == (0, 1)
