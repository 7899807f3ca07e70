import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import cast

import pytest

from longshore.contract import Engine, Exchanged, PromptSession
from longshore.core.job import Claim, NewJob
from longshore.core.limit_settings import BreakerSettings, Layer, Order, QueueSettings
from longshore.errors import LeaseLostError, QueueNotOpenedError
from longshore.records import breaker_settings, pauses, queue_settings
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.requirements import requires
from longshore.testing.factories import HOUR, a_job
from longshore.testing.manual import LEASE, ManualWorker, a_worker, heard, reference

_LONG = 60.0


async def _answer(
    worker: ManualWorker,
    seconds: float = _LONG,
    *,
    want: int = 10,
    queues: Sequence[str] | None = None,
) -> Exchanged | None:
    """The first that has claims; a wake-up may be for others, or for nothing."""
    session = cast("PromptSession", worker.session)
    while True:
        answer = await session.claim_at_wakeup(
            worker.number + 1, want=want, queues=queues, seconds=seconds
        )
        if answer is None:
            return None
        worker.number += 1
        if answer.claims:
            return answer


async def _next(
    worker: ManualWorker,
    seconds: float = _LONG,
    *,
    want: int = 10,
    queues: Sequence[str] | None = None,
) -> list[Claim] | None:
    """What a wake-up brings."""
    answer = await _answer(worker, seconds, want=want, queues=queues)
    return None if answer is None else answer.claims


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
            session.cancel_wait()
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
    await pauses.pause(engine, queue="default")
    waiting = asyncio.ensure_future(_next(worker))
    await heard(engine)
    await engine.submit([a_job(), a_job(type="not.served"), a_job()])
    await heard(engine)

    assert not waiting.done()
    await pauses.resume(engine, queue="default")
    async with asyncio.timeout(10):
        claims = await waiting

    assert claims is not None
    assert len(claims) == 2


async def _woken_by(worker: ManualWorker, *jobs: NewJob, want: int = 10) -> list[Claim]:
    """What a session that found nothing claims when these arrive in one batch."""
    assert await worker.claim() == []
    waiting = asyncio.ensure_future(_next(worker, want=want))
    await heard(worker.engine)
    await worker.engine.submit(jobs)
    async with asyncio.timeout(10):
        claims = await waiting
    assert claims is not None
    return claims


@requires("claims_at_wakeup")
async def test_a_session_that_waits_gets_no_more_than_it_wants_and_in_order(
    engine: Engine,
) -> None:
    worker = await a_worker(engine, types=("noop", "mail"))
    jobs = [a_job(priority=9), a_job(type="mail", priority=1), a_job(priority=5)]

    first = await _woken_by(worker, *jobs, want=2)
    rest = await worker.claim(10)
    batch = [a_job() for _ in range(5)]
    some = await _woken_by(worker, *batch, want=3)

    assert [one.id for one in first] == [jobs[1].id, jobs[2].id]
    assert [one.id for one in rest] == [jobs[0].id]
    assert [one.id for one in some] == [job.id for job in batch[:3]]


@requires("claims_at_wakeup")
@pytest.mark.parametrize("rule", ["type", "pause", "limit", "rate", "breaker", "fair"])
async def test_each_rule_alone_holds_for_a_session_that_waits(
    engine: Engine, rule: str
) -> None:
    served = ("noop", "mail") if rule != "type" else ("mail",)
    worker = await a_worker(engine, types=served)
    if rule == "breaker":
        opens = BreakerSettings(failures=1, cooldown=HOUR)
        await breaker_settings.put(engine, "noop", Layer.OVERRIDDEN, opens)
        await engine.submit([a_job()])
        (claim,) = await worker.claim()
        await worker.fail(claim)
    elif rule == "pause":
        await pauses.pause(engine, type="noop")
    elif rule != "type":
        await queue_settings.put(engine, "default", Layer.OVERRIDDEN, _SETTINGS[rule])
    jobs = [a_job(tenant="b", type="mail"), a_job(tenant="a"), a_job(tenant="b", type="mail")]

    claims = await _woken_by(worker, *jobs)

    mail = [jobs[0].id, jobs[2].id]
    expected = {"limit": mail[:1], "rate": mail[:1], "fair": [jobs[1].id, *mail]}
    assert [one.id for one in claims] == expected.get(rule, mail)


_SETTINGS = {
    "limit": QueueSettings(max_running=1),
    "rate": QueueSettings(rate=0.001, burst=1),
    "fair": QueueSettings(order=Order.FAIR),
}


@requires("claims_at_wakeup")
async def test_a_session_that_waits_for_one_of_its_queues_claims_from_no_other(
    engine: Engine,
) -> None:
    worker = await a_worker(engine, queues=("default", "other"))
    assert await worker.claim(queues=["default"]) == []
    waiting = asyncio.ensure_future(_next(worker, queues=["default"]))
    await heard(engine)
    elsewhere, here = a_job(queue="other"), a_job()

    await engine.submit([elsewhere])
    await heard(engine)
    await engine.submit([here])

    async with asyncio.timeout(10):
        claims = await waiting
    assert claims is not None
    assert [one.id for one in claims] == [here.id]
    assert [one.id for one in await worker.claim(10)] == [elsewhere.id]


@requires("claims_at_wakeup")
async def test_a_session_that_is_woken_hears_which_of_its_jobs_to_cancel(
    engine: Engine,
) -> None:
    worker = await a_worker(engine)
    await engine.submit([a_job()])
    (held,) = await worker.claim()
    await engine.change("cancel", [held.id], reason="changed my mind")
    assert await worker.claim() == []
    waiting = asyncio.ensure_future(_answer(worker))
    await heard(engine)

    await engine.submit([a_job()])

    async with asyncio.timeout(10):
        answer = await waiting
    assert answer is not None
    assert answer.cancel == [reference(held)]


@requires("claims_at_wakeup")
async def test_an_exchange_that_found_nothing_finds_nothing_when_it_is_sent_again_at_a_wakeup(
    engine: Engine,
) -> None:
    worker = await a_worker(engine)
    assert await worker.claim(10) == []
    job = a_job()
    await engine.submit([job])
    session = cast("PromptSession", worker.session)

    async with asyncio.timeout(10):
        again = await session.claim_at_wakeup(
            worker.number, want=10, queues=None, seconds=_LONG
        )

    assert again is not None
    assert again.claims == []
    assert [one.id for one in await worker.claim(10)] == [job.id]


@requires("claims_at_wakeup")
async def test_sessions_that_wait_beside_each_other_leave_each_other_alone(
    engine: Engine,
) -> None:
    busy, *workers = [await a_worker(engine, name=f"worker-{number}") for number in range(3)]
    await engine.submit([a_job()])
    its = await busy.claim()
    for _ in range(3):
        for worker in workers:
            assert await worker.claim() == []
    waiting = {asyncio.ensure_future(_next(worker)): worker for worker in workers}
    await heard(engine)

    found: list[Claim] = []
    async with asyncio.timeout(10):
        while waiting:
            await engine.submit([a_job()])
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                worker = waiting.pop(one)
                claims = await one
                assert claims is not None
                found += claims
                assert (await worker.session.exchange(worker.number, want=10)).claims == claims

    assert (await busy.repeat()).claims == its
    assert len({one.id for one in found}) == 2


@requires("claims_at_wakeup")
async def test_of_a_batch_of_two_types_each_of_two_that_wait_gets_its_own(
    engine: Engine,
) -> None:
    types = ("noop", "mail")
    workers = [await a_worker(engine, name=name, types=[name]) for name in types]
    for worker in workers:
        assert await worker.claim() == []

    for _ in range(10):
        waiting = [asyncio.ensure_future(_next(worker)) for worker in workers]
        await heard(engine)
        await engine.submit([a_job(type=name) for name in types * 3])
        async with asyncio.timeout(10):
            found = await asyncio.gather(*waiting)
        assert [[one.type for one in claims or ()] for claims in found] == [
            [name] * 3 for name in types
        ]
        for worker in workers:
            assert await worker.claim() == []
