"""When it pays to ask again for jobs that a limit holds back."""

import asyncio

import pytest
from msgspec.structs import replace

from longshore.contract import Engine
from longshore.core import settle
from longshore.core.job import NewJob
from longshore.core.limit_settings import Layer, QueueSettings
from longshore.records import pauses, queue_settings
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.requirements import requires
from longshore.testing.factories import SECOND, a_job
from longshore.testing.manual import a_worker, heard

OVERRIDDEN = Layer.OVERRIDDEN

_LEFT: dict[str, tuple[list[NewJob], int | None]] = {
    "nothing": ([], None),
    "its types": ([a_job()], SECOND),
    "a type it does not serve": ([a_job(type="rare")], None),
    "several types, one of them its own": ([a_job(type="rare"), a_job(type="mail")], SECOND),
    "several types that it does not serve": ([a_job(type="rare"), a_job(type="other")], None),
    "a type that is paused": ([a_job(type="paused")], None),
    "a type that is paused here": ([a_job(type="paused.here")], None),
    "a type that is paused elsewhere": ([a_job(type="paused.elsewhere")], SECOND),
    "one type of another queue": ([a_job(queue="other")], None),
    "another queue": ([a_job(queue="other"), a_job(queue="other", type="mail")], None),
    "another queue beside what it does not serve": (
        [
            *(a_job(queue="other", type=name) for name in ("rare", "mail")),
            *(a_job(type=name) for name in ("rare", "other")),
        ],
        None,
    ),
}


@pytest.mark.parametrize("left", _LEFT)
async def test_it_pays_to_ask_again_if_what_is_held_back_could_be_claimed(
    engine: Engine, left: str
) -> None:
    await queue_settings.put(engine, "default", OVERRIDDEN, QueueSettings(max_running=1))
    await pauses.pause(engine, type="paused")
    await pauses.pause(engine, type="paused.here", queue="default")
    await pauses.pause(engine, type="paused.elsewhere", queue="other")
    await engine.submit([a_job(priority=1)])
    jobs, look_in = _LEFT[left]
    await engine.submit(jobs)
    served = ("noop", "mail", "paused", "paused.here", "paused.elsewhere")
    worker = await a_worker(engine, types=served)

    answer = await worker.exchange(want=5)

    assert (len(answer.claims), answer.look_in) == (1, look_in)


async def test_who_gets_all_that_it_wants_need_not_ask_again(engine: Engine) -> None:
    await queue_settings.put(engine, "default", OVERRIDDEN, QueueSettings(max_running=3))
    await engine.submit([a_job() for _ in range(5)])
    worker = await a_worker(engine)

    answers = [await worker.exchange(want=want) for want in (2, 1, 1)]

    assert [len(one.claims) for one in answers] == [2, 1, 0]
    assert [one.look_in for one in answers] == [None, None, SECOND]


async def test_what_a_limit_holds_back_counts_though_a_later_queue_gives_enough(
    engine: Engine,
) -> None:
    for queue, most in (("first", 2), ("second", 2), ("third", 9)):
        await queue_settings.put(engine, queue, OVERRIDDEN, QueueSettings(max_running=most))
        await engine.submit([a_job(queue=queue) for _ in range(4)])
    worker = await a_worker(engine, queues=["first", "second", "third"])

    answer = await worker.exchange(want=6)

    queues = [one.queue for one in answer.claims]
    assert queues == ["first"] * 2 + ["second"] * 2 + ["third"] * 2
    assert answer.look_in == SECOND


async def test_tokens_that_are_left_make_nobody_ask_sooner(engine: Engine) -> None:
    settings = QueueSettings(max_running=1, rate=10.0, burst=5)
    await queue_settings.put(engine, "default", OVERRIDDEN, settings)
    await engine.submit([a_job() for _ in range(5)])
    worker = await a_worker(engine)

    answer = await worker.exchange(want=5)

    assert (len(answer.claims), answer.look_in) == (1, SECOND)


async def test_far_below_its_limit_a_queue_hands_out_at_its_rate(
    engine: Engine, clock: ManualClock
) -> None:
    settings = QueueSettings(max_running=100, rate=1.0, burst=2)
    await queue_settings.put(engine, "default", OVERRIDDEN, settings)
    await engine.submit([a_job() for _ in range(9)])
    one, other = await a_worker(engine), await a_worker(engine)

    burst = [len(await worker.claim(1)) for worker in (one, other, one, other)]
    clock.advance(2 * SECOND)
    later = [len(await worker.claim(1)) for worker in (one, other, one)]

    assert (burst, later) == ([1, 1, 0, 0], [1, 1, 0])


async def test_a_rate_that_is_lifted_for_a_while_beside_another_limit_was_spent_before(
    engine: Engine,
) -> None:
    limited = QueueSettings(rate=0.001, burst=2, max_running=5)
    await queue_settings.put(engine, "default", OVERRIDDEN, limited)
    await engine.submit([a_job() for _ in range(9)])
    worker = await a_worker(engine)
    first = await worker.claim(9)

    await queue_settings.put(engine, "default", OVERRIDDEN, QueueSettings(max_running=5))
    lifted = await worker.claim(9)
    await queue_settings.put(engine, "default", OVERRIDDEN, replace(limited, max_running=9))
    again = await worker.claim(9)

    assert [len(claims) for claims in (first, lifted, again)] == [2, 3, 0]


async def test_each_queue_of_a_claim_spends_its_own_tokens_and_places(engine: Engine) -> None:
    limits = {"a": (2, 4), "b": (9, 1), "c": (9, 9)}
    for queue, (most, burst) in limits.items():
        settings = QueueSettings(max_running=most, rate=0.001, burst=burst)
        await queue_settings.put(engine, queue, OVERRIDDEN, settings)
        await engine.submit([a_job(queue=queue) for _ in range(12)])
    worker = await a_worker(engine, queues=["c", "a", "b"])
    other = await a_worker(engine, name="other", queues=["a", "b", "c"])

    few = [one.queue for one in await worker.claim(9, queues=["a"])]
    all_at_once = [one.queue for one in await worker.claim(5)]
    rest = await other.claim(30)

    assert few == ["a"] * 2
    assert all_at_once == ["c"] * 5
    assert [one.queue for one in rest] == ["b", *["c"] * 4]


async def test_what_a_session_claims_from_two_queues_is_counted_in_each(
    engine: Engine,
) -> None:
    for queue in ("a", "b"):
        await queue_settings.put(engine, queue, OVERRIDDEN, QueueSettings(max_running=3))
        await engine.submit([a_job(queue=queue) for _ in range(2)])
    one, other = [await a_worker(engine, queues=["a", "b"]) for _ in range(2)]

    first = await one.claim(3)
    for queue in ("a", "b"):
        await engine.submit([a_job(queue=queue) for _ in range(4)])
    second = await other.claim(9)

    assert [claim.queue for claim in first] == ["a", "a", "b"]
    assert [claim.queue for claim in second] == ["a", "b", "b"]


async def test_what_sessions_run_is_counted_for_each_of_them(engine: Engine) -> None:
    await queue_settings.put(engine, "default", OVERRIDDEN, QueueSettings(max_running=6))
    await engine.submit([a_job() for _ in range(20)])
    workers = [await a_worker(engine, name=f"worker-{number}") for number in range(3)]

    first = [len(await worker.claim(1)) for worker in workers]
    second = [len(await worker.claim(2)) for worker in workers]

    assert (first, second) == ([1, 1, 1], [2, 1, 0])


@requires("pushes_wakeups")
async def test_room_that_a_worker_makes_and_does_not_need_wakes_who_waits(
    engine: Engine,
) -> None:
    await queue_settings.put(engine, "default", OVERRIDDEN, QueueSettings(max_running=2))
    await engine.submit([a_job() for _ in range(4)])
    one, other = await a_worker(engine), await a_worker(engine)
    claims = await one.claim(2)
    assert await other.claim() == []
    # Who begins to listen, or to wait, is woken once to look at what came meanwhile.
    await other.session.wait(0.1)
    await asyncio.sleep(0.05)
    waiting = asyncio.ensure_future(other.session.wait(30))
    await heard(engine)

    now = await engine.now()
    ends = [settle.succeeded(claim, started_at=now, finished_at=now) for claim in claims]
    answer = await one.exchange(settlements=ends, want=1)

    async with asyncio.timeout(10):
        await waiting
    assert (len(answer.claims), len(await other.claim(5))) == (1, 1)
