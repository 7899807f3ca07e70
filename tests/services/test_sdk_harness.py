"""Tests of tasks, as a user writes them."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from longshore import ConfigError, Dead, Longshore, Retry, Snooze, State, current_job
from longshore.runtime.clock import SECOND
from longshore.testing.harness import Borrowed, eventually

Drained = Callable[[Longshore], Borrowed]

app = Longshore("sqlite:///never-made.db")
outbox: list[str] = []


@pytest.fixture(autouse=True)
def empty_outbox() -> None:
    outbox.clear()


@app.task(queue="mail")
async def welcome(name: str) -> None:
    outbox.append(f"welcome {name}")


@app.task
def sign_up(name: str) -> str:
    app.sync.submit(welcome.spec(name))
    return name


@app.task(max_attempts=3, retry_base=1, retry_jitter="none")
async def flaky(wanted: int) -> int:
    if current_job().attempt < wanted:
        raise ValueError(f"attempt {current_job().attempt}")
    return current_job().attempt


async def test_a_drain_runs_jobs_and_those_they_submit(drained: Drained):
    async with drained(app) as queue:
        job = await sign_up.submit("ann")
        done = await queue.drain()

        assert outbox == ["welcome ann"]
        assert done.runs == ["sign_up", "welcome"]
        assert await job.result(timeout=0) == "ann"


def test_a_test_that_does_not_await_drains_too(drained: Drained):
    with drained(app) as queue:
        job = app.sync.submit(sign_up.spec("bob"))
        queue.drain()

        assert outbox == ["welcome bob"]
        assert app.sync.result(job, timeout=0) == "bob"


async def test_jobs_run_one_at_a_time_in_their_order(drained: Drained):
    async with drained(app) as queue:
        names = [f"{n}" for n in range(20)]
        await app.submit_many(welcome.spec(name) for name in names)
        await welcome.using(priority=1).submit("first")
        await queue.drain()

    assert outbox == ["welcome first", *(f"welcome {name}" for name in names)]


async def test_no_job_begins_before_another_has_ended(drained: Drained):
    running: list[int] = []

    @app.task(name="crowded")
    async def crowded(n: int) -> None:
        assert running == []
        running.append(n)
        await asyncio.sleep(0)
        running.remove(n)

    async with drained(app) as queue:
        await app.submit_many(crowded.spec(n) for n in range(5))
        done = await queue.drain()

    assert done.runs == ["crowded"] * 5


async def test_a_task_says_how_long_its_retries_wait(drained: Drained):
    @app.task(name="stubborn", retry_delay=lambda failures: timedelta(minutes=failures))
    async def stubborn() -> None:
        if current_job().attempt < 3:
            raise ValueError

    async with drained(app) as queue:
        start = queue.clock.now()
        await stubborn.submit()
        await queue.drain(timedelta(hours=1), raises=False)

        assert queue.clock.now() == start + 3 * 60 * SECOND


async def test_what_is_left_at_the_end_of_the_block_runs_too(drained: Drained):
    async with drained(app):
        await welcome.submit("ann")

    assert outbox == ["welcome ann"]


async def test_what_a_task_raises_the_drain_raises(drained: Drained):
    async with drained(app) as queue:
        await flaky.submit(2)
        with pytest.raises(ValueError, match="attempt 1"):
            await queue.drain()


async def test_failures_can_be_looked_at_instead(drained: Drained):
    async with drained(app) as queue:
        job = await flaky.submit(9)
        done = await queue.drain(timedelta(minutes=1), raises=False)

        assert [str(error) for error in done.errors] == ["attempt 1", "attempt 2", "attempt 3"]
        assert await job.status() is State.DEAD


async def test_several_failures_come_as_a_group(drained: Drained):
    async with drained(app) as queue:
        await flaky.submit(2)
        await flaky.submit(2)
        with pytest.raises(ExceptionGroup, match="2 attempts failed"):
            await queue.drain()


async def test_time_passes_only_as_far_as_it_is_told_to(drained: Drained):
    async with drained(app) as queue:
        start = queue.clock.now()
        await welcome.using(delay=timedelta(hours=1)).submit("soon")
        await welcome.using(delay=timedelta(hours=3)).submit("late")

        await queue.drain()
        assert outbox == []
        await queue.drain(timedelta(hours=2))
        assert outbox == ["welcome soon"]
        assert queue.clock.now() == start + 3_600 * SECOND
        await queue.drain(timedelta(hours=2))
        assert outbox == ["welcome soon", "welcome late"]


async def test_retries_and_snoozes_are_waited_for(drained: Drained):
    @app.task(name="patient")
    async def patient() -> int:
        if current_job().attempt == 1:
            raise Snooze(timedelta(days=1))
        if current_job().attempt == 2:
            raise Retry(after=60)
        return current_job().attempt

    async with drained(app) as queue:
        job = await patient.submit()
        done = await queue.drain(timedelta(days=2), raises=False)

        assert await job.result(timeout=0) == 3
        assert [type(error) for error in done.errors] == [Retry]


async def test_a_task_that_submits_itself_for_ever_is_stopped(drained: Drained):
    @app.task(name="echo")
    async def echo() -> None:
        await echo.submit()

    async with drained(app) as queue:
        await echo.submit()
        with pytest.raises(Dead, match="does a task submit itself"):
            await queue.drain(most=50)


async def test_each_block_begins_with_an_empty_queue_and_ends_at_home(drained: Drained):
    async with drained(app):
        await app.submit("elsewhere")
        with pytest.raises(ConfigError, match="open"), app.at("sqlite://:memory:"):
            pass
    async with drained(app):
        assert await app.engine.counts() == []

    assert app.url == "sqlite:///never-made.db"


async def test_an_error_in_the_block_is_the_one_that_is_seen(drained: Drained):
    with pytest.raises(KeyError):
        async with drained(app):
            await flaky.submit(2)
            raise KeyError


async def test_what_would_run_in_a_child_process_runs_where_the_test_can_see_it(
    drained: Drained,
):
    local = Longshore("sqlite:///never-made.db")
    seen: list[str] = []

    @local.task(execution="process")
    def plain(word: str) -> None:
        seen.append(word)

    @local.task(execution="process")
    async def coroutine(word: str) -> None:
        await asyncio.sleep(0)
        seen.append(word)

    async with drained(local) as queue:
        await plain.submit("a")
        await coroutine.submit("b")
        done = await queue.drain()

    assert (seen, done.runs) == (["a", "b"], ["plain", "coroutine"])


async def test_eventually_waits_for_what_becomes_true():
    answers = iter([0, None, [], "yes"])

    async def asked() -> object:
        return next(answers)

    assert await eventually(asked, every=0) == "yes"
    with pytest.raises(AssertionError, match="not within 0 s; last: False"):
        await eventually(lambda: False, within=0)
