"""What a handler does decides how its attempt ends, and nothing it does ends the worker."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from workshop import Workshop, open_workshop

from longshore.contract import JobFilter
from longshore.core.state import State
from longshore.directives import Cancel, Dead, Retry, Snooze
from longshore.job_context import current_job
from longshore.testing.factories import MINUTE, SECOND, a_job


@pytest.fixture
async def shop() -> AsyncIterator[Workshop]:
    async with open_workshop() as shop:
        yield shop


class UnreadableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Abrupt(BaseException):
    """Not even an Exception."""


ERRORS: dict[str, BaseException] = {
    "ValueError": ValueError("no such user"),
    "CancelledError": asyncio.CancelledError("by itself"),
    "SystemExit": SystemExit(1),
    "KeyboardInterrupt": KeyboardInterrupt(),
    "GeneratorExit": GeneratorExit(),
    "Abrupt": Abrupt("sudden"),
    "UnreadableError": UnreadableError(),
    "ExceptionGroup": ExceptionGroup("both", [ValueError("a"), KeyError("b")]),
    "RuntimeError": RuntimeError("a nul \0 and a surrogate \ud800"),
    "OSError": OSError("long " * 2_000_000),
}


def register(shop: Workshop, error: BaseException, kind: str) -> None:
    async def fail_async(_: Any) -> None:
        raise error

    def fail_sync(_: Any) -> None:
        raise error

    async def fine(_: Any) -> str:
        return "fine"

    shop.task("fail", fail_async if kind == "async" else fail_sync)
    shop.task("fine", fine)


@pytest.mark.parametrize("kind", ["async", "thread"])
@pytest.mark.parametrize("name", ERRORS)
async def test_an_error_of_any_kind_is_a_failure_of_its_own_job_only(
    shop: Workshop, name: str, kind: str
):
    register(shop, ERRORS[name], kind)
    failing = await shop.submit("fail")
    neighbours = [await shop.submit("fine") for _ in range(3)]

    worker = await shop.work(concurrency=1)

    job = await shop.job(failing)
    assert (job.state, job.failures, job.attempt) == (State.SCHEDULED, 1, 1)
    assert job.failure is not None
    assert job.failure.kind == name
    assert len(job.failure.message) <= 4_096
    assert "\0" not in job.failure.message
    assert [(await shop.job(one)).state for one in neighbours] == [State.SUCCEEDED] * 3
    assert (worker.stats.failed, worker.stats.retried, worker.stats.succeeded) == (1, 1, 3)


async def test_the_traceback_begins_in_the_handler(shop: Workshop):
    async def inner(_: Any) -> None:
        raise ValueError("no such user")

    shop.task("fail", inner)
    job_id = await shop.submit("fail")

    await shop.work()

    failure = (await shop.job(job_id)).failure
    assert failure is not None
    assert "in inner" in failure.traceback
    assert "slots.py" not in failure.traceback
    assert failure.traceback.rstrip().endswith("ValueError: no such user")


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_result_is_kept(shop: Workshop, kind: str):
    async def add_async(arguments: Any) -> int:
        return arguments["a"] + 1

    def add_sync(arguments: Any) -> int:
        return arguments["a"] + 1

    shop.task("add", add_async if kind == "async" else add_sync)
    job_id = await shop.submit("add", {"a": 41})

    await shop.work()

    assert (await shop.job(job_id)).result == b"42"


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_result_that_cannot_be_kept_kills_the_job_instead_of_running_it_again(
    shop: Workshop, kind: str
):
    async def give_async(_: Any) -> object:
        return object()

    def give_sync(_: Any) -> object:
        return object()

    shop.task("give", give_async if kind == "async" else give_sync)
    job_id = await shop.submit("give")

    await shop.work()

    job = await shop.job(job_id)
    assert (job.state, job.failures, job.reason) == (State.DEAD, 1, "result")
    assert job.failure is not None
    assert job.failure.kind == "result"


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_payload_that_is_not_the_tasks_is_dead_at_once(shop: Workshop, kind: str):
    ran: list[Any] = []

    async def run_async(arguments: Any) -> None:
        ran.append(arguments)

    shop.task("odd", run_async if kind == "async" else ran.append)
    job_id = await shop.submit("odd", raw=b"not json", max_attempts=5)

    await shop.work()

    job = await shop.job(job_id)
    assert (job.state, job.reason, job.failures) == (State.DEAD, "payload", 1)
    assert job.failure is not None
    assert job.failure.kind == "payload"
    assert ran == []


async def test_an_error_inside_the_handler_is_never_taken_for_a_bad_payload(shop: Workshop):
    async def fail(_: Any) -> None:
        raise shop_error

    shop_error = KeyError("inside")
    shop.task("fail", fail)
    job_id = await shop.submit("fail")

    await shop.work()

    job = await shop.job(job_id)
    assert (job.state, job.failures) == (State.SCHEDULED, 1)


async def test_a_job_that_always_fails_is_dead_after_exactly_max_attempts(shop: Workshop):
    runs: list[int] = []

    async def fail(_: Any) -> None:
        runs.append(current_job().attempt)
        raise ValueError("always")

    shop.task("fail", fail)
    job_id = await shop.submit("fail", max_attempts=3)

    for _ in range(5):
        await shop.work()
        shop.clock.advance(MINUTE)

    job = await shop.job(job_id)
    assert runs == [1, 2, 3]
    assert (job.state, job.reason, job.failures) == (State.DEAD, "exhausted", 3)


async def test_retry_counts_a_failure_and_comes_when_it_asked_to(shop: Workshop):
    async def ask(_: Any) -> None:
        raise Retry(after=timedelta(minutes=5), reason="warming up")

    shop.task("ask", ask)
    job_id = await shop.submit("ask")

    await shop.work()

    job = await shop.job(job_id)
    assert (job.state, job.failures) == (State.SCHEDULED, 1)
    assert job.run_at == shop.clock.now() + 5 * MINUTE
    assert job.failure is not None
    assert (job.failure.kind, job.failure.message) == ("Retry", "warming up")


async def test_snooze_charges_nothing(shop: Workshop):
    async def ask(_: Any) -> None:
        raise Snooze(60)

    shop.task("ask", ask)
    job_id = await shop.submit("ask")

    await shop.work()

    job = await shop.job(job_id)
    assert (job.state, job.failures, job.attempt) == (State.SCHEDULED, 0, 1)
    assert job.run_at == shop.clock.now() + MINUTE


@pytest.mark.parametrize(
    "after", [float("nan"), "soon", None], ids=["not a number", "text", "nothing"]
)
async def test_a_snooze_that_makes_no_sense_is_a_failure(shop: Workshop, after: Any):
    async def ask(_: Any) -> None:
        raise Snooze(after)

    shop.task("ask", ask)
    job_id = await shop.submit("ask")

    await shop.work()

    job = await shop.job(job_id)
    assert (job.state, job.failures) == (State.SCHEDULED, 1)


async def test_an_endless_snooze_ends_some_day(shop: Workshop):
    async def ask(_: Any) -> None:
        raise Snooze(float("inf"))

    shop.task("ask", ask)
    job_id = await shop.submit("ask")

    await shop.work()

    assert (await shop.job(job_id)).state is State.SCHEDULED


async def test_dead_sets_the_job_aside_with_its_reason(shop: Workshop):
    async def ask(_: Any) -> None:
        raise Dead("the user is gone")

    shop.task("ask", ask)
    job_id = await shop.submit("ask")

    await shop.work()

    job = await shop.job(job_id)
    assert (job.state, job.reason) == (State.DEAD, "the user is gone")


async def test_cancel_ends_the_job_as_cancelled(shop: Workshop):
    async def ask(_: Any) -> None:
        raise Cancel("no longer needed")

    shop.task("ask", ask)
    job_id = await shop.submit("ask")

    await shop.work()

    job = await shop.job(job_id)
    assert (job.state, job.reason) == (State.CANCELLED, "no longer needed")


async def test_a_tasks_own_retry_delay_is_heeded(shop: Workshop):
    async def fail(_: Any) -> None:
        raise ValueError

    shop.task("fail", fail, retry_delay=lambda failures: failures * 7 * SECOND)
    job_id = await shop.submit("fail")

    await shop.work()

    assert (await shop.job(job_id)).run_at == shop.clock.now() + 7 * SECOND


async def test_a_retry_delay_that_raises_falls_back_to_the_backoff(shop: Workshop):
    async def fail(_: Any) -> None:
        raise ValueError

    def delay(_: int) -> int:
        raise ZeroDivisionError

    shop.task("fail", fail, retry_delay=delay)
    job_id = await shop.submit("fail")

    await shop.work()

    job = await shop.job(job_id)
    assert (job.state, job.failures) == (State.SCHEDULED, 1)
    assert shop.clock.now() < job.run_at < shop.clock.now() + SECOND


async def test_starts_and_ends_are_told_in_the_engines_time(shop: Workshop):
    async def wait(_: Any) -> None:
        shop.clock.advance(3 * SECOND)

    shop.task("wait", wait)
    job_id = await shop.submit("wait")
    began = shop.clock.now()

    await shop.work()

    job = await shop.job(job_id)
    assert job.started_at == pytest.approx(began, abs=10)
    assert job.finished_at == pytest.approx(began + 3 * SECOND, abs=10)


async def test_jobs_that_fail_together_come_back_no_faster_than_others_succeed(shop: Workshop):
    """With a clock that stands still, everything happens in one second."""

    async def fail(_: Any) -> None:
        raise Retry(after=timedelta(seconds=1))

    async def fine(_: Any) -> None: ...

    shop.task("fail", fail)
    shop.task("fine", fine)
    for queue, type_name, count in [("a", "fine", 130), ("a", "fail", 300), ("b", "fail", 150)]:
        jobs = [a_job(type=type_name, queue=queue, max_attempts=2) for _ in range(count)]
        await shop.engine.submit([*jobs, a_job(type="fail", queue=queue, max_attempts=1)])

    await shop.work(queues=["a", "b"])

    def per_second(queue: str) -> Counter[int]:
        due = [one.run_at - shop.clock.now() for one in waiting if one.queue == queue]
        assert min(due) == SECOND
        return Counter(one // SECOND for one in due)

    waiting = (await shop.engine.find(JobFilter(state=State.SCHEDULED), limit=1_000)).jobs
    assert per_second("b") == {1: 100, 2: 50}
    by_second = per_second("a")
    assert max(by_second.values()) <= 130
    assert sum(by_second.values()) == 300
