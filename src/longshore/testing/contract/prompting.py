import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from longshore.core.job import Claim
from longshore.engine import Engine, PromptSession
from longshore.errors import LeaseLostError, QueueNotOpenedError
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.requirements import requires
from longshore.testing.factories import a_job
from longshore.testing.manual import LEASE, ManualWorker, a_worker, heard

_LONG = 60.0


async def _next(worker: ManualWorker, seconds: float = _LONG) -> list[Claim] | None:
    """What a wake-up brings; a wake-up may be for others, or for nothing."""
    session = cast("PromptSession", worker.session)
    while True:
        answer = await session.claim_at_wakeup(
            worker.number + 1, want=10, queues=None, seconds=seconds
        )
        if answer is None:
            return None
        worker.number += 1
        if answer.claims:
            return answer.claims


@requires("claims_at_wakeup")
async def test_a_session_that_waits_claims_what_arrives(
    engine: Engine, reopen: Callable[[], Awaitable[Engine]]
) -> None:
    worker = await a_worker(engine)
    sender = await reopen() if engine.traits.shared_between_processes else engine
    found: list[Claim] = []
    jobs = [
        a_job(payload=b'{"n":1}'),
        a_job(payload=b'{"n":2}', tags=("t",)),
        a_job(type="noop"),
    ]

    for job in jobs:
        waiting = asyncio.ensure_future(_next(worker))
        await heard(engine)
        await sender.submit([job])
        async with asyncio.timeout(10):
            claims = await waiting
        assert claims is not None
        found += claims
        again = await worker.session.exchange(worker.number, want=10)
        assert again.claims == claims
        await worker.succeed(claims[0])

    assert [(one.id, one.payload, one.tags, one.delivery) for one in found] == [
        (job.id, job.payload, job.tags, 1) for job in jobs
    ]
    (queue,) = await engine.counts()
    assert (queue.succeeded, queue.running, queue.ready) == (3, 0, 0)


@requires("claims_at_wakeup")
async def test_a_wait_for_a_queue_that_its_session_did_not_open_is_refused_at_once(
    engine: Engine,
) -> None:
    worker = await a_worker(engine)
    await engine.submit([a_job()])
    await worker.claim(10)
    session = cast("PromptSession", worker.session)

    async with asyncio.timeout(10):
        with pytest.raises(QueueNotOpenedError):
            await session.claim_at_wakeup(
                worker.number + 1, want=1, queues=["default", "mail"], seconds=_LONG
            )
    await engine.submit([a_job()])

    assert len(await worker.claim(10)) == 1


@requires("pushes_wakeups")
@requires("claims_at_wakeup")
async def test_what_arrived_since_the_last_look_needs_no_other_wakeup(engine: Engine) -> None:
    worker = await a_worker(engine)
    async with asyncio.timeout(10):
        assert await _next(worker, 0.3) is None  # from here on it listens
        assert await worker.claim() == []
        await engine.submit([a_job()])

        claims = await _next(worker)

    assert claims is not None
    assert len(claims) == 1


@requires("claims_at_wakeup")
async def test_a_session_that_is_roused_claims_nothing(engine: Engine) -> None:
    worker = await a_worker(engine)
    session = cast("PromptSession", worker.session)
    waiting = asyncio.ensure_future(_next(worker))

    async with asyncio.timeout(10):
        while not waiting.done():
            session.rouse()
            await asyncio.sleep(0.001)

    assert waiting.result() is None
    await engine.submit([a_job()])
    assert len(await worker.claim()) == 1


@requires("pushes_wakeups")
@requires("claims_at_wakeup")
async def test_a_session_that_waited_past_its_lease_claims_nothing(
    engine: Engine, clock: ManualClock
) -> None:
    worker = await a_worker(engine)
    async with asyncio.timeout(10):
        assert await _next(worker, 0.3) is None  # from here on it looks when it is told to
    waiting = asyncio.ensure_future(_next(worker))
    await heard(engine)
    clock.advance(LEASE)
    await a_worker(engine, name="live")

    await engine.submit([a_job()])

    with pytest.raises(LeaseLostError):
        async with asyncio.timeout(10):
            await waiting
    (queue,) = await engine.counts()
    assert (queue.running, queue.ready) == (0, 1)


@requires("claims_at_wakeup")
async def test_rules_hold_for_a_session_that_waits(engine: Engine) -> None:
    worker = await a_worker(engine)
    await engine.pause(queue="default")
    waiting = asyncio.ensure_future(_next(worker))
    await heard(engine)
    await engine.submit([a_job(), a_job(type="not.served"), a_job()])
    await heard(engine)

    assert not waiting.done()
    await engine.resume(queue="default")
    async with asyncio.timeout(10):
        claims = await waiting

    assert claims is not None
    assert len(claims) == 2
