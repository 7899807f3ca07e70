"""Progress: what a handler says reaches the engine, seldom enough to cost nothing."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from workshop import Workshop, open_workshop, within

from longshore.core import event
from longshore.core.event import Name
from longshore.core.job import JobId
from longshore.core.state import State
from longshore.errors import LongshoreError
from longshore.job_context import current_job
from longshore.testing.harness import eventually
from longshore.worker.attempt import Stop


@pytest.fixture
async def shop() -> AsyncIterator[Workshop]:
    async with open_workshop() as shop:
        yield shop


async def told_of(shop: Workshop, job_id: JobId) -> list[object]:
    """The fractions that events tell, in order."""
    batches = await shop.engine.events(after=0, limit=1_000)
    return [
        one.details["fraction"]
        for batch in batches
        for one in event.expand(batch)
        if one.name is Name.PROGRESS and one.job_id == job_id
    ]


async def test_what_a_coroutine_reports_is_seen_while_it_runs(shop: Workshop):
    go_on = asyncio.Event()

    async def resize(_: Any) -> None:
        await current_job().progress(0.4, "resizing")
        await go_on.wait()

    shop.task("resize", resize)
    job_id = await shop.submit("resize")

    async with shop.working():

        async def is_seen() -> bool:
            return (await shop.job(job_id)).progress is not None

        await eventually(is_seen)
        job = await shop.job(job_id)
        go_on.set()

    assert job.progress is not None
    assert (job.state, job.progress.fraction, job.progress.message) == (
        State.RUNNING,
        0.4,
        "resizing",
    )


async def test_a_plain_function_reports_without_await(shop: Workshop):
    def count(_: Any) -> None:
        current_job().progress(0.1)
        current_job().progress(1)

    shop.task("count", count)
    job_id = await shop.submit("count")

    await shop.work()

    assert await told_of(shop, job_id) == [0.1, 1.0]


async def test_of_a_thousand_reports_the_first_and_the_last_are_sent(shop: Workshop):
    async def hurry(_: Any) -> None:
        for step in range(1, 1_001):
            await current_job().progress(step / 1_000, f"step {step}")

    shop.task("hurry", hurry)
    job_id = await shop.submit("hurry")

    await shop.work()

    told = await told_of(shop, job_id)
    progress = (await shop.job(job_id)).progress
    assert (told[0], told[-1]) == (0.001, 1.0)
    assert len(told) <= 20
    assert progress is not None
    assert (progress.fraction, progress.message) == (1.0, "step 1000")


async def test_many_jobs_that_report_share_their_exchanges(shop: Workshop):
    done = asyncio.Event()
    begun = 0

    async def report(_: Any) -> None:
        nonlocal begun
        await current_job().progress(0.5)
        begun += 1
        await done.wait()

    shop.task("report", report)
    ids = [await shop.submit("report") for _ in range(200)]

    async with shop.working(shop.worker(concurrency=200)) as worker:
        await eventually(lambda: begun == 200)
        before = worker.stats.exchanges

        async def are_seen() -> bool:
            return all([(await shop.job(one)).progress for one in ids])

        await eventually(are_seen)
        after = worker.stats.exchanges
        done.set()

    assert after - before <= 10


async def test_a_job_that_fails_reports_before_it_does(shop: Workshop):
    async def fail(_: Any) -> None:
        await current_job().progress(0.7, "almost")
        raise ValueError("not quite")

    shop.task("fail", fail)
    job_id = await shop.submit("fail", max_attempts=1)

    await shop.work()

    job = await shop.job(job_id)
    assert job.progress is not None
    assert (job.state, job.progress.fraction) == (State.DEAD, 0.7)


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan"), float("inf"), "half", None])
async def test_a_fraction_that_is_none_is_an_error_in_the_handler(
    shop: Workshop, fraction: Any
):
    seen: list[str] = []

    async def wrong(_: Any) -> None:
        with pytest.raises(LongshoreError, match="a number from 0 to 1") as caught:
            current_job().progress(fraction)
        seen.append(str(caught.value))

    shop.task("wrong", wrong)
    job_id = await shop.submit("wrong")

    await shop.work()

    assert len(seen) == 1
    assert (await shop.job(job_id)).progress is None


async def test_a_message_is_cut_and_kept_storable(shop: Workshop):
    async def talk(_: Any) -> None:
        await current_job().progress(0.5, "nul \0, half a pair \ud800, " + "x" * 1_000)

    shop.task("talk", talk)
    job_id = await shop.submit("talk")

    await shop.work()

    progress = (await shop.job(job_id)).progress
    assert progress is not None
    assert progress.message is not None
    assert len(progress.message) == 200
    assert progress.message.startswith("nul \ufffd, half a pair ?, xxx")


async def test_what_is_said_after_the_end_is_not_sent(shop: Workshop):
    late: list[threading.Thread] = []

    async def leave(_: Any) -> None:
        job = current_job()
        late.append(threading.Thread(target=lambda: job.progress(0.9)))

    shop.task("leave", leave)
    job_id = await shop.submit("leave")
    await shop.work()

    for thread in late:
        thread.start()
        thread.join(10)

    assert (await shop.job(job_id)).progress is None


async def test_reports_survive_an_engine_that_is_away_for_a_moment(shop: Workshop):
    go_on = asyncio.Event()

    async def report(_: Any) -> None:
        shop.flaky.lose_answers(2, of=["exchange"])
        await current_job().progress(0.5)
        await go_on.wait()

    shop.task("report", report)
    job_id = await shop.submit("report")

    async with shop.working():
        await eventually(lambda: shop.flaky._lost_answers == 0)
        go_on.set()

        async def has_ended() -> bool:
            return (await shop.job(job_id)).state is State.SUCCEEDED

        await eventually(has_ended)

    assert await told_of(shop, job_id) == [0.5]


async def test_a_worker_that_lost_its_lease_sends_nothing_of_what_was_said(shop: Workshop):
    go_on = asyncio.Event()

    async def report(_: Any) -> None:
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                await current_job().progress(0.9, "who cares")

    shop.task("report", report)
    job_id = await shop.submit("report")

    async with shop.working() as worker:
        await eventually(lambda: worker._slots.attempts())
        (attempt,) = worker._slots.attempts()
        worker._fetcher.lose(worker._standing.token)
        await eventually(lambda: attempt.stop is Stop.LOST and attempt.tellings)
        await asyncio.sleep(0)
        unsent = dict(worker._slots.bulletin._unsent)
        go_on.set()

    assert unsent == {}
    assert await told_of(shop, job_id) == []


async def test_a_handler_can_ask_for_the_time_of_the_queue(shop: Workshop):
    seen: list[Any] = []

    async def ask(_: Any) -> None:
        seen.append(current_job().now())

    shop.task("ask", ask)
    await shop.submit("ask")

    await within(shop.work())

    assert [int(one.timestamp() * 1_000_000) for one in seen] == [shop.clock.now()]
