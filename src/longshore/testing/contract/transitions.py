from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from longshore.contract import Engine
from longshore.core.job import Job
from longshore.core.state import TERMINAL, TRANSITIONS, State, Verb
from longshore.errors import IllegalTransitionError, JobNotFoundError
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import a_job_that_is, snapshot
from longshore.testing.factories import HOUR, an_id
from longshore.testing.manual import a_worker

Order = Callable[[Engine, Job], Awaitable[Any]]


async def _cancel(engine: Engine, job: Job) -> None:
    await engine.cancel([job.id], reason="ordered")


async def _replay(engine: Engine, job: Job) -> None:
    await engine.replay([job.id])


async def _retry_now(engine: Engine, job: Job) -> None:
    await engine.retry_now([job.id])


async def _purge(engine: Engine, job: Job) -> None:
    await engine.purge([job.id])


ORDERS: dict[str, Order] = {
    Verb.CANCEL: _cancel,
    Verb.REPLAY: _replay,
    Verb.RETRY_NOW: _retry_now,
    "purge": _purge,
}


def _allows(state: State, order: str) -> bool:
    return state in TERMINAL if order == "purge" else (state, order) in TRANSITIONS


LEGAL = [(s, Verb(o)) for s in State for o in ORDERS if o != "purge" and _allows(s, o)]
ILLEGAL = [(state, order) for state in State for order in ORDERS if not _allows(state, order)]


@pytest.mark.parametrize(("state", "verb"), LEGAL)
async def test_a_legal_order_moves_the_job(engine: Engine, state: State, verb: Verb) -> None:
    job = await a_job_that_is(state, engine)

    await ORDERS[verb](engine, job)

    # Only its holder ends a running job; an order can but ask for it.
    is_request = state is State.RUNNING
    expected = State.RUNNING if is_request else TRANSITIONS[state, verb]
    moved = await engine.get(job.id)
    assert (moved.state, moved.cancel_requested) == (expected, is_request)


@pytest.mark.parametrize(("state", "order"), ILLEGAL)
async def test_an_illegal_order_is_refused_and_changes_nothing(
    engine: Engine, state: State, order: str
) -> None:
    job = await a_job_that_is(state, engine)
    before = await snapshot(engine, job.id)

    with pytest.raises(IllegalTransitionError) as caught:
        await ORDERS[order](engine, job)

    assert (caught.value.state, caught.value.verb) == (state, order)
    assert await snapshot(engine, job.id) == before


@pytest.mark.parametrize("state", sorted(set(State) - {State.READY}))
async def test_only_ready_jobs_are_claimed(engine: Engine, state: State) -> None:
    job = await a_job_that_is(state, engine)
    before = await snapshot(engine, job.id)
    worker = await a_worker(engine, queues=[job.queue])

    claims = await worker.claim(10)

    assert claims == []
    assert await snapshot(engine, job.id) == before


@pytest.mark.parametrize("state", sorted(set(State) - {State.SCHEDULED}))
async def test_only_scheduled_jobs_are_promoted(
    engine: Engine, clock: ManualClock, state: State
) -> None:
    job = await a_job_that_is(state, engine)
    clock.advance(2 * HOUR)
    before = await snapshot(engine, job.id)

    promoted = await engine.promote(limit=10)

    assert promoted.count == 0
    assert await snapshot(engine, job.id) == before


@pytest.mark.parametrize("order", ORDERS)
async def test_an_order_for_an_unknown_job_is_refused(engine: Engine, order: str) -> None:
    job = await a_job_that_is(State.READY, engine)
    before = await snapshot(engine, job.id)
    unknown = an_id()

    with pytest.raises(JobNotFoundError) as caught:
        await ORDERS[order](engine, replace(job, id=unknown))

    assert unknown.hex()[:8] in str(caught.value)
    assert await snapshot(engine, job.id) == before
