import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from longshore.contract import Engine, JobFilter
from longshore.core.job import Verdict
from longshore.core.settle import succeeded
from longshore.core.state import State, Verb
from longshore.errors import EngineError, IllegalTransitionError, LongshoreError
from longshore.records import pauses, schedules
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.requirements import requires
from longshore.testing.factories import a_job, a_schedule, a_settlement
from longshore.testing.manual import a_worker, heard

Reopen = Callable[[], Awaitable[Engine]]
"""Opens the engine's store once more, as another process would."""


async def test_a_closed_engine_answers_with_an_engine_error(engine: Engine) -> None:
    worker = await a_worker(engine)
    await engine.close()

    calls: list[Awaitable[Any]] = [
        engine.submit([a_job()]),
        engine.promote(limit=1),
        engine.find(JobFilter(), limit=1),
        engine.counts(),
        schedules.put(engine, a_schedule()),
        engine.events(after=0, limit=1),
        engine.ping(),
        worker.session.renew(),
    ]

    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(answer) for answer in answers if not isinstance(answer, EngineError)] == []


async def test_closing_an_engine_twice_is_harmless(engine: Engine) -> None:
    await engine.submit([a_job()])

    await engine.close()
    await engine.close()


async def test_an_open_engine_can_be_pinged_and_migrated_again(engine: Engine) -> None:
    await engine.submit([a_job()])

    applied = await engine.migrate()

    assert applied == []
    await engine.ping()
    assert len((await engine.find(JobFilter(), limit=10)).jobs) == 1


@pytest.mark.parametrize(
    "odd",
    [
        {"delay": 2**70},
        {"run_at": 2**70},
        {"priority": 2**70},
        {"timeout": 2**70},
        {"max_attempts": 2**70},
        {"queue": "\ud800"},
        {"type": "\ud800"},
        {"tags": ("\ud800",)},
        {"unique_key": "\ud800"},
        {"idempotency_key": "\ud800"},
    ],
    ids=lambda odd: next(iter(odd)),
)
async def test_what_no_store_can_hold_harms_only_its_sender(
    engine: Engine, odd: dict[str, Any]
) -> None:
    """It may be refused or cut to size; it never breaks the engine or a neighbour's call."""
    first, second = a_job(), a_job()

    before, answer, behind = await asyncio.gather(
        engine.submit([first]),
        engine.submit([a_job(**odd)]),
        engine.submit([second]),
        return_exceptions=True,
    )

    assert isinstance(answer, list | LongshoreError)
    assert isinstance(before, list)
    assert isinstance(behind, list)
    assert (await engine.get(first.id)).state is State.READY
    assert (await engine.get(second.id)).state is State.READY


async def test_a_callers_own_mistake_harms_only_that_caller(engine: Engine) -> None:
    """A neighbour that travels in the same commit is not to blame for a wrong type."""
    first, second = a_job(), a_job()
    wrong: Any = "urgent"

    before, answer, behind = await asyncio.gather(
        engine.submit([first]),
        engine.submit([a_job(priority=wrong)]),
        engine.submit([second]),
        return_exceptions=True,
    )

    assert isinstance(answer, Exception)
    assert isinstance(before, list)
    assert isinstance(behind, list)


async def test_a_batch_that_is_refused_leaves_nothing_of_itself(engine: Engine) -> None:
    good, bad = a_job(), a_job(queue="\ud800")

    try:
        await engine.submit([good, bad])
    except LongshoreError:
        found = (await engine.find(JobFilter(), limit=10)).jobs
    else:
        pytest.skip("the engine accepts it")

    assert found == []
    assert await engine.events(after=0, limit=10) == []


async def test_a_bad_exchange_does_not_harm_calls_that_travel_with_it(engine: Engine) -> None:
    await engine.submit([a_job(), a_job()])
    wrong, right = await a_worker(engine), await a_worker(engine)
    (first,) = await wrong.claim()
    (second,) = await right.claim()

    refused, settled, submitted = await asyncio.gather(
        wrong.settle(a_settlement(first, Verb.PROMOTE)),
        right.succeed(second),
        engine.submit([a_job()]),
        return_exceptions=True,
    )

    assert isinstance(refused, IllegalTransitionError)
    assert not isinstance(settled, BaseException)
    assert not isinstance(submitted, BaseException)
    assert (await engine.get(second.id)).state is State.SUCCEEDED
    assert (await engine.get(first.id)).state is State.RUNNING


async def test_a_cancelled_submit_can_be_sent_again(engine: Engine) -> None:
    """Whether it arrived is unknown; sending it again makes it one job either way."""
    jobs = [a_job() for _ in range(20)]
    calls = [asyncio.ensure_future(engine.submit([job])) for job in jobs]
    await asyncio.sleep(0)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)

    answers = await engine.submit(jobs)

    assert {answer.verdict for answer in answers} <= {Verdict.ACCEPTED, Verdict.REPEATED}
    assert len((await engine.find(JobFilter(), limit=50)).jobs) == 20


async def test_a_cancelled_exchange_can_be_sent_again(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job() for _ in range(4)])
    worker = await a_worker(engine)
    (done,) = await worker.claim()
    now = clock.now()
    settlements = [succeeded(done, started_at=now, finished_at=now)]
    call = asyncio.ensure_future(worker.session.exchange(2, settlements=settlements, want=2))
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)

    answer = await worker.session.exchange(2, settlements=settlements, want=2)

    (queue,) = await engine.counts()
    assert (len(answer.claims), answer.stale) == (2, [])
    assert (queue.succeeded, queue.running, queue.ready) == (1, 2, 1)
    later = await worker.session.exchange(
        3, settlements=[a_settlement(claim, Verb.SUCCEED) for claim in answer.claims]
    )
    assert later.stale == []


async def test_waiting_ends_after_its_time(engine: Engine) -> None:
    worker = await a_worker(engine)

    async with asyncio.timeout(10):
        await worker.session.wait(0.01)


@requires("pushes_wakeups")
async def test_waiting_ends_when_work_arrives(engine: Engine) -> None:
    worker = await a_worker(engine)
    waiting = asyncio.ensure_future(worker.session.wait(60))
    await heard(engine)

    await engine.submit([a_job()])

    async with asyncio.timeout(10):
        await waiting
    assert len(await worker.claim()) == 1


@requires("shared_between_processes")
async def test_work_from_another_process_ends_the_wait(engine: Engine, reopen: Reopen) -> None:
    worker = await a_worker(engine)
    other = await reopen()
    waiting = asyncio.ensure_future(worker.session.wait(60))
    await heard(engine)

    await other.submit([a_job()])

    async with asyncio.timeout(10):
        await waiting


@requires("shared_between_processes")
async def test_two_processes_see_one_queue(engine: Engine, reopen: Reopen) -> None:
    other = await reopen()
    jobs = [a_job() for _ in range(20)]
    await asyncio.gather(engine.submit(jobs[:10]), other.submit(jobs[10:]))
    here, there = await a_worker(engine), await a_worker(other)

    claims = await asyncio.gather(here.claim(10), there.claim(10))

    ids = [claim.id for taken in claims for claim in taken]
    assert here.session.token != there.session.token
    assert sorted(ids) == sorted(job.id for job in jobs)


@requires("shared_between_processes")
async def test_what_was_answered_is_there_after_a_restart(
    engine: Engine, reopen: Reopen
) -> None:
    jobs = [a_job(), a_job()]
    await engine.submit(jobs)
    await pauses.pause(engine, type="video.render")
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await worker.succeed(claim, b"1")
    before = [await engine.get(job.id) for job in jobs]
    await engine.close()

    again = await reopen()

    assert [await again.get(job.id) for job in jobs] == before
    assert [one.outcome for one in await again.attempts(claim.id)] == ["succeeded"]
