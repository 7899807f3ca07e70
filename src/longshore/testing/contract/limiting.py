import asyncio

import pytest
from msgspec.structs import replace

from longshore.contract import Engine
from longshore.core import settle
from longshore.core.job import Claim, Settlement
from longshore.core.limit_settings import Layer, QueueSettings
from longshore.records import queue_settings
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.requirements import requires
from longshore.testing.factories import SECOND, a_job
from longshore.testing.manual import LEASE, ManualWorker, a_worker, heard, reclaim_lapsed


async def _limit(engine: Engine, queue: str = "default", **settings: float) -> None:
    await queue_settings.put(
        engine, queue, Layer.OVERRIDDEN, replace(QueueSettings(), **settings)
    )


async def _ended(worker: ManualWorker, *claims: Claim) -> list[Settlement]:
    now = await worker.engine.now()
    return [settle.succeeded(one, started_at=now, finished_at=now) for one in claims]


async def test_no_more_jobs_of_a_queue_run_than_may(engine: Engine) -> None:
    await _limit(engine, max_running=3)
    await engine.submit([a_job() for _ in range(10)])
    one, other = await a_worker(engine), await a_worker(engine)

    first, second = await one.claim(2), await other.claim(5)
    third = await one.exchange(want=5)

    assert (len(first), len(second), third.claims) == (2, 1, [])
    assert third.look_in is not None
    (counts,) = await engine.counts()
    assert (counts.running, counts.ready) == (3, 7)


async def test_what_ends_makes_room_at_once_however_few_of_a_claim(engine: Engine) -> None:
    await _limit(engine, max_running=4)
    await engine.submit([a_job() for _ in range(10)])
    one, other = await a_worker(engine), await a_worker(engine)
    claims = await one.claim(4)

    own = await one.exchange(settlements=await _ended(one, claims[0]), want=5)
    await one.settle(*await _ended(one, claims[2]))
    others = await other.claim(5)

    assert (len(own.claims), len(others)) == (1, 1)


async def test_a_rate_that_was_lifted_and_comes_back_starts_anew(engine: Engine) -> None:
    await _limit(engine, rate=0.001, burst=2)
    await engine.submit([a_job() for _ in range(5)])
    worker = await a_worker(engine)
    first = await worker.claim(5)
    await _limit(engine)
    lifted = await queue_settings.every(engine)

    await _limit(engine, rate=0.001, burst=2)

    (again,) = await queue_settings.every(engine)
    assert (len(first), lifted, again.token_at) == (2, [], None)
    assert len(await worker.claim(5)) == 2


async def test_every_way_a_claim_can_end_makes_room(engine: Engine) -> None:
    await _limit(engine, max_running=5)
    await engine.submit([a_job() for _ in range(5)])
    worker = await a_worker(engine)
    claims = await worker.claim(5)
    await worker.succeed(claims[0])
    await worker.fail(claims[1])
    await worker.kill(claims[2])
    await worker.snooze(claims[3], SECOND)
    await worker.release(claims[4])
    await engine.submit([a_job() for _ in range(9)])

    assert len(await worker.claim(20)) == 5


async def test_a_repeated_exchange_takes_no_room_twice(engine: Engine) -> None:
    await _limit(engine, max_running=4, rate=0.001, burst=4)
    await engine.submit([a_job() for _ in range(10)])
    worker = await a_worker(engine)
    claims = await worker.claim(2)

    repeated = await worker.repeat()
    more = await worker.claim(10)

    assert repeated.claims == claims
    assert len(more) == 2


async def test_what_a_lapsed_session_holds_counts_until_it_is_reclaimed(
    engine: Engine, clock: ManualClock
) -> None:
    await _limit(engine, max_running=2)
    await engine.submit([a_job() for _ in range(6)])
    dead = await a_worker(engine)
    await dead.claim(2)
    clock.advance(LEASE + 1)
    other = await a_worker(engine)

    before = await other.claim(2)
    await reclaim_lapsed(engine)

    assert before == []
    assert len(await other.claim(5)) == 2


async def test_a_dead_workers_room_comes_back_when_it_is_buried(engine: Engine) -> None:
    await _limit(engine, max_running=3)
    await engine.submit([a_job() for _ in range(9)])
    dead, closing, other = [await a_worker(engine) for _ in range(3)]
    claims = await dead.claim(2)
    await closing.claim(1)

    await engine.end_session(dead.session.token, await _ended(dead, claims[0]))
    after_burial = await other.claim(9)
    await closing.session.close()

    assert len(after_burial) == 2
    assert len(await other.claim(9)) == 1


async def test_claims_that_a_worker_never_heard_of_do_not_keep_their_room(
    engine: Engine,
) -> None:
    await _limit(engine, max_running=2)
    await engine.submit([a_job() for _ in range(6)])
    one, other = await a_worker(engine), await a_worker(engine)
    await one.claim(2)

    await one.renew(holding=[])
    await one.exchange()

    assert len(await other.claim(5)) == 2


async def test_a_limit_counts_what_runs_already(engine: Engine) -> None:
    await engine.submit([a_job() for _ in range(10)])
    one, other = await a_worker(engine), await a_worker(engine)
    claims = await one.claim(4)
    await _limit(engine, max_running=5)

    first = await other.claim(10)
    await one.settle(*await _ended(one, *claims))
    second = await other.claim(10)

    assert (len(first), len(second)) == (1, 4)


async def test_a_limit_beside_another_counts_what_runs_by_then(engine: Engine) -> None:
    await _limit(engine, rate=1_000.0)
    await engine.submit([a_job() for _ in range(10)])
    worker = await a_worker(engine)
    claims = await worker.claim(4)
    await worker.settle(*await _ended(worker, *claims[:3]))

    await _limit(engine, rate=1_000.0, max_running=3)

    assert len(await worker.claim(10)) == 2


async def test_a_limit_below_what_runs_stops_nothing_and_lets_nothing_start(
    engine: Engine,
) -> None:
    await engine.submit([a_job() for _ in range(10)])
    worker = await a_worker(engine)
    claims = await worker.claim(4)
    await _limit(engine, max_running=2)

    one_ended = await worker.exchange(settlements=await _ended(worker, *claims[:2]), want=9)
    three_ended = await worker.exchange(settlements=await _ended(worker, claims[2]), want=9)

    assert one_ended.claims == []
    assert len(three_ended.claims) == 1


async def test_a_full_queue_does_not_hold_back_another(engine: Engine) -> None:
    await _limit(engine, "a", max_running=1)
    await engine.submit([a_job(queue=queue) for queue in "aaabbb"])
    worker = await a_worker(engine, queues=["a", "b"])

    claims = await worker.claim(10)

    assert [claim.queue for claim in claims] == ["a", "b", "b", "b"]


@requires("pushes_wakeups")
@pytest.mark.parametrize("end", ["settled", "buried", "closed", "raised"])
async def test_whoever_waits_for_room_is_woken(engine: Engine, end: str) -> None:
    await _limit(engine, max_running=1)
    await engine.submit([a_job(), a_job()])
    one, other = await a_worker(engine), await a_worker(engine)
    (claim,) = await one.claim()
    assert await other.claim() == []
    # Who begins to listen, or to wait, is woken once to look at what came meanwhile.
    await other.session.wait(0.1)
    await asyncio.sleep(0.05)
    waiting = asyncio.ensure_future(other.session.wait(30))
    await heard(engine)

    match end:
        case "settled":
            await one.settle(*await _ended(one, claim))
        case "buried":
            await engine.end_session(one.session.token, await _ended(one, claim))
        case "closed":
            await one.session.close()
        case _:
            await _limit(engine, max_running=2)

    async with asyncio.timeout(10):
        await waiting
    assert len(await other.claim()) == 1


async def test_a_rate_lets_a_burst_start_and_then_so_many_a_second(
    engine: Engine, clock: ManualClock
) -> None:
    await _limit(engine, rate=2.0, burst=3)
    await engine.submit([a_job() for _ in range(20)])
    one, other = await a_worker(engine), await a_worker(engine)

    burst = [*await one.claim(2), *await other.claim(10)]
    empty = await one.exchange(want=10)
    (queue,) = await queue_settings.every(engine)
    next_at = clock.now() + SECOND // 2
    clock.advance(SECOND // 2)
    (due,) = await queue_settings.every(engine)
    early = await other.claim(10)
    clock.advance(10 * SECOND)
    late = await one.claim(10)

    assert (len(burst), empty.claims, empty.look_in) == (3, [], SECOND // 2)
    assert (queue.token_at, due.token_at) == (next_at, None)
    assert (len(early), len(late)) == (1, 3)


async def test_what_was_not_claimed_costs_no_token(engine: Engine, clock: ManualClock) -> None:
    await _limit(engine, rate=1.0, burst=5)
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    claims = await worker.claim(5)
    idle = await worker.exchange(want=5)
    await worker.settle(*await _ended(worker, *claims))

    await engine.submit([a_job() for _ in range(9)])

    assert (len(claims), idle.claims, idle.look_in) == (2, [], None)
    assert len(await worker.claim(9)) == 3


async def test_a_limit_that_is_lifted_holds_nothing_back(engine: Engine) -> None:
    await _limit(engine, max_running=1, rate=0.001)
    await engine.submit([a_job() for _ in range(9)])
    worker = await a_worker(engine)
    first = await worker.claim(9)

    await queue_settings.put(engine, "default", Layer.OVERRIDDEN, QueueSettings())

    assert (len(first), len(await worker.claim(9))) == (1, 8)


async def test_a_limit_that_is_set_later_counts_only_what_runs_of_its_own_queue(
    engine: Engine,
) -> None:
    await engine.submit([a_job(queue="other") for _ in range(2)])
    worker = await a_worker(engine, queues=["other", "default"])
    others = await worker.claim(2)
    await engine.submit([a_job() for _ in range(3)])

    await _limit(engine, max_running=2)

    claims = await worker.claim(5)
    assert [one.queue for one in others] == ["other", "other"]
    assert [one.queue for one in claims] == ["default", "default"]


async def test_each_limit_holds_for_a_worker_that_claims_from_several_limited_queues(
    engine: Engine,
) -> None:
    await _limit(engine, "first", max_running=8)
    await _limit(engine, "second", max_running=8)
    await engine.submit([a_job(queue="first"), *(a_job(queue="second") for _ in range(12))])
    worker = await a_worker(engine, queues=["first", "second"])

    claims = [one for _ in range(12) for one in await worker.claim(1)]

    assert [one.queue for one in claims] == ["first", *["second"] * 8]
