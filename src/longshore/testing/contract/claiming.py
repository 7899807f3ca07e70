import asyncio

import pytest

from longshore.contract import Engine
from longshore.core import settle
from longshore.core.job import Claim
from longshore.core.state import State
from longshore.errors import QueueNotOpenedError
from longshore.records import pauses
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import numbers, snapshot
from longshore.testing.factories import HOUR, MINUTE, SECOND, a_job
from longshore.testing.manual import LEASE, a_worker, reclaim_lapsed


async def test_claims_come_by_priority_and_then_in_order_of_arrival(engine: Engine) -> None:
    jobs = [a_job(priority=priority) for priority in (5, 9, 1, 5, 1)]
    await engine.submit(jobs)
    worker = await a_worker(engine)

    claims = await worker.claim(5)

    expected = [jobs[2], jobs[4], jobs[0], jobs[3], jobs[1]]
    assert [claim.id for claim in claims] == [job.id for job in expected]


async def test_a_job_submitted_earlier_goes_first_even_if_the_clock_was_set_back(
    engine: Engine, clock: ManualClock
) -> None:
    first, second = a_job(), a_job()
    await engine.submit([first])
    clock.step(-HOUR)
    await engine.submit([second])
    worker = await a_worker(engine)

    claims = await worker.claim(2)

    assert [claim.id for claim in claims] == [first.id, second.id]


async def test_a_punctual_job_goes_ahead_of_its_own_priority_only(
    engine: Engine, clock: ManualClock
) -> None:
    usual, urgent, punctual = a_job(), a_job(priority=4), a_job(delay=MINUTE)
    await engine.submit([usual, urgent, punctual])
    clock.advance(MINUTE)
    await engine.promote(limit=10)
    worker = await a_worker(engine)

    claims = await worker.claim(3)

    assert [claim.id for claim in claims] == [urgent.id, punctual.id, usual.id]


async def test_punctual_jobs_go_by_their_due_times(engine: Engine, clock: ManualClock) -> None:
    later, sooner = a_job(delay=2 * MINUTE), a_job(delay=MINUTE)
    await engine.submit([later, sooner])
    clock.advance(HOUR)
    await engine.promote(limit=10)
    worker = await a_worker(engine)

    claims = await worker.claim(2)

    assert [claim.id for claim in claims] == [sooner.id, later.id]


@pytest.mark.parametrize("way", ["retried", "snoozed", "released", "reclaimed", "replayed"])
async def test_a_job_that_comes_back_keeps_its_place(
    engine: Engine, clock: ManualClock, way: str
) -> None:
    first, second = a_job(), a_job()
    await engine.submit([first])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    clock.advance(SECOND)
    await engine.submit([second])
    if way == "retried":
        await worker.fail(claim)
    elif way == "snoozed":
        await worker.snooze(claim, SECOND)
    elif way == "released":
        await worker.release(claim)
    elif way == "replayed":
        await worker.kill(claim)
        await engine.change("replay", [claim.id])
    clock.advance(LEASE)
    await reclaim_lapsed(engine)
    await engine.promote(limit=10)
    worker = await a_worker(engine)

    claims = await worker.claim(2)

    assert [claim.id for claim in claims] == [first.id, second.id]


async def test_a_claim_takes_no_more_than_is_wanted(engine: Engine) -> None:
    await engine.submit([a_job() for _ in range(5)])
    worker = await a_worker(engine)

    assert [len(await worker.claim(want)) for want in (0, 2, 10, 1)] == [0, 2, 3, 0]


async def test_two_sessions_never_get_the_same_job(engine: Engine) -> None:
    jobs = [a_job() for _ in range(40)]
    await engine.submit(jobs)
    workers = [await a_worker(engine, name=f"worker-{number}") for number in range(4)]

    taken = await asyncio.gather(*(worker.claim(15) for worker in workers))

    ids = [claim.id for claims in taken for claim in claims]
    assert sorted(ids) == sorted(job.id for job in jobs)


async def test_a_claim_carries_what_a_handler_needs(engine: Engine, clock: ManualClock) -> None:
    trace = f"00-{'a' * 32}-{'b' * 16}-01"
    new = a_job(
        payload=b'{"a": 1}', tenant="acme", priority=3, timeout=None, trace=trace, tags=("t",)
    )
    await engine.submit([new])
    worker = await a_worker(engine)

    (claim,) = await worker.claim()

    assert claim == Claim(
        handle=claim.handle,
        delivery=1,
        id=new.id,
        type="noop",
        queue="default",
        tenant="acme",
        payload=b'{"a": 1}',
        priority=3,
        attempt=0,
        failures=0,
        crashes=0,
        lapses=0,
        max_attempts=5,
        timeout=None,
        created_at=clock.now(),
        run_at=clock.now(),
        trace=trace,
        tags=("t",),
    )


async def test_a_claim_tells_what_happened_to_the_job_before(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await worker.fail(claim)
    clock.advance(SECOND)
    await engine.promote(limit=1)

    (claim,) = await worker.claim()

    assert (claim.delivery, claim.attempt, claim.failures) == (2, 1, 1)
    assert (claim.crashes, claim.lapses) == (0, 0)
    assert claim.run_at == clock.now()


async def test_a_claimed_job_is_running_but_not_started(engine: Engine) -> None:
    new = a_job()
    await engine.submit([new])
    worker = await a_worker(engine, name="host-7:1")

    await worker.claim()

    job = await engine.get(new.id)
    assert (job.state, job.worker, job.started_at) == (State.RUNNING, "host-7:1", None)
    assert numbers(job) == (1, 0, 0, 0, 0)


async def test_queues_are_drained_in_the_order_they_are_named(engine: Engine) -> None:
    slow, fast, other = a_job(queue="slow", priority=1), a_job(queue="fast"), a_job(queue="x")
    await engine.submit([slow, fast, other])
    worker = await a_worker(engine, queues=["fast", "slow"])

    claims = await worker.claim(10)

    assert [claim.id for claim in claims] == [fast.id, slow.id]


async def test_a_queue_is_empty_before_the_next_one_is_touched(engine: Engine) -> None:
    first = [a_job(queue="a") for _ in range(3)]
    second = [a_job(queue="b") for _ in range(3)]
    await engine.submit([*second, *first])
    worker = await a_worker(engine, queues=["a", "b"])

    claims = await worker.claim(4)

    assert [claim.id for claim in claims] == [job.id for job in [*first, second[0]]]


async def test_an_exchange_may_name_some_of_its_sessions_queues(engine: Engine) -> None:
    here, there = a_job(queue="here"), a_job(queue="there")
    await engine.submit([here, there])
    worker = await a_worker(engine, queues=["here", "there"])

    claims = await worker.claim(10, queues=["there"])

    assert [claim.id for claim in claims] == [there.id]


@pytest.mark.parametrize("attached", [False, True])
async def test_an_exchange_for_a_queue_that_its_session_did_not_open_applies_nothing(
    engine: Engine, attached: bool
) -> None:
    here, there = a_job(queue="here"), a_job(queue="there")
    await engine.submit([here, there])
    worker = await a_worker(engine, queues=["here"])
    (claim,) = await worker.claim(1)
    if attached:
        worker.session = await engine.attach_session(worker.session.token)
    now = await engine.now()
    done = settle.succeeded(claim, started_at=now, finished_at=now)

    for want, queues in ((1, ["there"]), (1, ["here", "there"]), (0, ["there"])):
        with pytest.raises(QueueNotOpenedError, match="'there'") as refused:
            await worker.exchange(settlements=[done], want=want, queues=queues)
        assert refused.value.queue == "there"
    standing = [(await engine.get(job.id)).state for job in (here, there)]
    answer = await worker.exchange(settlements=[done], want=1, queues=["here"])

    assert standing == [State.RUNNING, State.READY]
    assert (answer.stale, answer.claims) == ([], [])
    assert (await engine.get(here.id)).state is State.SUCCEEDED


async def test_types_nobody_serves_stay_ready_and_uncharged(engine: Engine) -> None:
    unknown = a_job(type="video.render")
    await engine.submit([unknown])
    worker = await a_worker(engine, types=["noop", "email.send"])

    claims = await worker.claim(10)

    job = await engine.get(unknown.id)
    assert claims == []
    assert job.state is State.READY
    assert numbers(job) == (0, 0, 0, 0, 0)


async def test_types_that_are_not_served_do_not_block_what_stands_behind_them(
    engine: Engine,
) -> None:
    unknown = [a_job(type="video.render", priority=1) for _ in range(50)]
    served = [a_job(type="email.send"), a_job(type="noop"), a_job(type="email.send")]
    await engine.submit(unknown)
    for job in served:
        await engine.submit([job])
    worker = await a_worker(engine, types=["noop", "email.send"])

    claims = await worker.claim(10)

    assert [claim.id for claim in claims] == [job.id for job in served]


async def test_a_session_that_serves_no_type_gets_nothing(engine: Engine) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine, types=[])

    assert await worker.claim(10) == []


async def test_scheduled_jobs_are_not_handed_out(engine: Engine, clock: ManualClock) -> None:
    await engine.submit([a_job(delay=MINUTE)])
    clock.advance(HOUR)
    worker = await a_worker(engine)

    assert await worker.claim(10) == []


async def test_tokens_grow_with_every_session_ever_opened(engine: Engine) -> None:
    first = await a_worker(engine)
    second = await a_worker(engine)
    await second.session.close()

    third = await a_worker(engine)

    assert first.session.token < second.session.token < third.session.token


async def test_a_handle_never_names_another_job_later(engine: Engine) -> None:
    """Else a late settlement of the first job could end the second."""
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (first,) = await worker.claim()
    await worker.succeed(first)
    await engine.change("purge", [first.id])
    await engine.submit([a_job()])

    (second,) = await worker.claim()

    assert second.handle != first.handle


async def test_an_empty_exchange_is_harmless(engine: Engine, clock: ManualClock) -> None:
    new = a_job()
    await engine.submit([new])
    worker = await a_worker(engine)
    before = await snapshot(engine, new.id)

    answer = await worker.exchange()

    assert (answer.claims, answer.stale, answer.cancel) == ([], [], [])
    assert (answer.now, answer.is_paused) == (clock.now(), False)
    assert await snapshot(engine, new.id) == before


async def test_the_answer_to_an_exchange_tells_the_engines_time(
    engine: Engine, clock: ManualClock
) -> None:
    worker = await a_worker(engine)
    clock.advance(SECOND)

    answer = await worker.exchange(want=1)

    assert answer.now == clock.now() == await engine.now()


async def test_order_holds_across_hundreds_of_types(engine: Engine) -> None:
    """No type waits because there are many others, and the most urgent job goes first."""
    types = [f"type-{number:04}" for number in range(900)]
    await engine.submit([a_job(type=name) for name in types])
    await engine.submit([a_job(type=types[-1], priority=1)])
    worker = await a_worker(engine, types=types)

    first = await worker.claim(1)
    rest = [
        claim.type for _ in range(9) for claim in await worker.claim(700, queues=["default"])
    ]

    assert [(claim.type, claim.priority) for claim in first] == [(types[-1], 1)]
    assert rest == types


async def test_a_queue_named_twice_is_no_reason_to_hand_out_less(engine: Engine) -> None:
    await engine.submit([a_job() for _ in range(2)] + [a_job(queue="mail") for _ in range(2)])
    worker = await a_worker(engine, queues=["mail", "default"])

    claims = await worker.claim(4, queues=["default", "default", "mail"])

    assert [claim.queue for claim in claims] == ["default", "default", "mail", "mail"]


async def test_order_holds_across_hundreds_of_queues(engine: Engine) -> None:
    queues = [f"queue-{number:03}" for number in range(300)]
    full = queues[250::-50]
    await engine.submit([a_job(queue=queue) for queue in sorted(full)])
    await pauses.pause(engine, queue=full[1])
    worker = await a_worker(engine, queues=queues[::-1])

    claims = await worker.claim(100)

    assert [claim.queue for claim in claims] == [full[0], *full[2:]]
