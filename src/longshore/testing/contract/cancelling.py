import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from longshore.contract import Engine
from longshore.core.state import State, Verb
from longshore.errors import IllegalTransitionError, JobNotFoundError
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import a_job_that_is, numbers, snapshot
from longshore.testing.contract.requirements import requires
from longshore.testing.factories import SECOND, a_job, a_settlement, an_id
from longshore.testing.manual import a_worker, heard, reference


@pytest.mark.parametrize("state", [State.SCHEDULED, State.READY])
async def test_what_waits_is_cancelled_at_once(
    engine: Engine, clock: ManualClock, state: State
) -> None:
    job = await a_job_that_is(state, engine)
    clock.advance(SECOND)

    (cancelled,) = await engine.change("cancel", [job.id], reason="changed my mind")

    assert (cancelled.state, cancelled.reason) == (State.CANCELLED, "changed my mind")
    assert cancelled.finished_at == clock.now()
    assert cancelled == await engine.get(job.id)


async def test_a_cancelled_job_is_neither_claimed_nor_promoted(
    engine: Engine, clock: ManualClock
) -> None:
    jobs = [a_job(), a_job(delay=SECOND)]
    await engine.submit(jobs)
    await engine.change("cancel", [job.id for job in jobs], reason="changed my mind")
    clock.advance(SECOND)
    worker = await a_worker(engine)

    promoted = await engine.promote(limit=10)

    assert promoted.count == 0
    assert await worker.claim(10) == []


async def test_cancelling_a_running_job_tells_its_holder(engine: Engine) -> None:
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    wanted, unwanted = await worker.claim(2)

    (asked,) = await engine.change("cancel", [unwanted.id], reason="no longer needed")

    assert (asked.state, asked.cancel_requested) == (State.RUNNING, True)
    assert (await worker.exchange()).cancel == [reference(unwanted)]
    assert (await worker.renew(holding=[wanted, unwanted])).cancel == [reference(unwanted)]


@requires("pushes_wakeups")
async def test_a_cancel_wakes_the_holder_of_the_job(engine: Engine) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    waiting = asyncio.ensure_future(worker.session.wait(60, until="cancel"))
    await heard(engine)

    await engine.change("cancel", [claim.id], reason="no longer needed")

    async with asyncio.timeout(10):
        await waiting
    assert (await worker.exchange()).cancel == [reference(claim)]


@requires("pushes_wakeups")
@requires("shared_between_processes")
async def test_a_cancel_by_another_process_wakes_the_holder(
    engine: Engine, reopen: Callable[[], Awaitable[Engine]]
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    other = await reopen()
    waiting = asyncio.ensure_future(worker.session.wait(60, until="cancel"))
    await heard(engine)

    await other.change("cancel", [claim.id], reason="no longer needed")

    async with asyncio.timeout(10):
        await waiting


async def test_waiting_for_a_cancel_ends_after_its_time(engine: Engine) -> None:
    worker = await a_worker(engine)

    async with asyncio.timeout(10):
        await worker.session.wait(0.01, until="cancel")


async def test_a_cancel_is_not_told_to_other_sessions(engine: Engine) -> None:
    await engine.submit([a_job()])
    holder, other = await a_worker(engine), await a_worker(engine)
    (claim,) = await holder.claim()
    await engine.change("cancel", [claim.id], reason="no longer needed")

    assert (await other.exchange()).cancel == []


async def test_a_holder_that_stopped_its_job_cancels_it(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await engine.change("cancel", [claim.id], reason="no longer needed")

    answer = await worker.stop(claim)

    job = await engine.get(claim.id)
    assert answer.cancel == []
    assert (job.state, job.cancel_requested) == (State.CANCELLED, False)
    assert job.finished_at == clock.now()
    assert numbers(job) == (1, 1, 0, 0, 0)


async def test_whoever_asked_for_the_cancel_gives_the_reason(engine: Engine) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await engine.change("cancel", [claim.id], reason="the order was withdrawn")

    await worker.stop(claim, "the handler was stopped")

    assert (await engine.get(claim.id)).reason == "the order was withdrawn"


async def test_a_handler_that_returned_all_the_same_has_succeeded(engine: Engine) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await engine.change("cancel", [claim.id], reason="no longer needed")

    await worker.succeed(claim, b"1")

    job = await engine.get(claim.id)
    assert (job.state, job.result, job.reason) == (State.SUCCEEDED, b"1", None)
    assert not job.cancel_requested


@pytest.mark.parametrize(
    ("verb", "costs"),
    [
        (Verb.RETRY, {"charge": True, "delay": SECOND}),
        (Verb.SNOOZE, {"delay": SECOND}),
        (Verb.RELEASE, {}),
    ],
)
async def test_a_job_whose_cancel_was_requested_never_waits_again(
    engine: Engine, verb: Verb, costs: dict[str, Any]
) -> None:
    """Its holder may settle it before it hears of the request; the request still holds."""
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await engine.change("cancel", [claim.id], reason="no longer needed")

    answer = await worker.exchange(settlements=[a_settlement(claim, verb, **costs)], want=1)

    job = await engine.get(claim.id)
    assert (answer.stale, answer.claims) == ([], [])
    assert (job.state, job.reason) == (State.CANCELLED, "no longer needed")


async def test_closing_a_session_cancels_what_it_was_asked_to_stop(engine: Engine) -> None:
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    unwanted, wanted = await worker.claim(2)
    await engine.change("cancel", [unwanted.id], reason="no longer needed")

    await worker.session.close()

    assert (await engine.get(unwanted.id)).state is State.CANCELLED
    assert (await engine.get(wanted.id)).state is State.READY


async def test_asking_again_for_a_running_job_is_harmless(engine: Engine) -> None:
    job = await a_job_that_is(State.RUNNING, engine)
    await engine.change("cancel", [job.id], reason="first")
    before = await snapshot(engine, job.id)

    await engine.change("cancel", [job.id], reason="second")

    assert await snapshot(engine, job.id) == before


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.DEAD, State.CANCELLED])
async def test_one_finished_job_keeps_all_from_being_cancelled(
    engine: Engine, state: State
) -> None:
    waiting = await a_job_that_is(State.SCHEDULED, engine)
    finished = await a_job_that_is(state, engine)
    running = await a_job_that_is(State.RUNNING, engine)
    jobs = [waiting.id, finished.id, running.id]
    before = await snapshot(engine, *jobs)

    with pytest.raises(IllegalTransitionError) as caught:
        await engine.change("cancel", jobs, reason="all of it")

    assert (caught.value.state, caught.value.verb) == (state, Verb.CANCEL)
    assert await snapshot(engine, *jobs) == before


async def test_one_unknown_id_keeps_all_from_being_cancelled(engine: Engine) -> None:
    job = await a_job_that_is(State.READY, engine)
    before = await snapshot(engine, job.id)

    with pytest.raises(JobNotFoundError):
        await engine.change("cancel", [job.id, an_id()], reason="all of it")

    assert await snapshot(engine, job.id) == before


async def test_cancel_answers_in_the_order_it_was_asked(engine: Engine) -> None:
    jobs = [await a_job_that_is(state, engine) for state in (State.RUNNING, State.SCHEDULED)]

    answer = await engine.change(
        "cancel", [job.id for job in reversed(jobs)], reason="all of it"
    )

    assert [job.id for job in answer] == [job.id for job in reversed(jobs)]


async def test_cancelling_nothing_is_harmless(engine: Engine) -> None:
    assert await engine.change("cancel", [], reason="nothing") == []


async def test_another_tenants_job_cannot_be_cancelled(engine: Engine) -> None:
    mine, theirs = a_job(tenant="acme"), a_job(tenant="other")
    await engine.submit([mine, theirs])

    with pytest.raises(JobNotFoundError):
        await engine.change("cancel", [mine.id, theirs.id], reason="all of it", tenant="acme")

    assert (await engine.get(mine.id)).state is State.READY
    assert (await engine.get(theirs.id)).state is State.READY
