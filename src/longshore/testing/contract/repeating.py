import pytest

from longshore.contract import Engine
from longshore.core import settle
from longshore.core.state import State
from longshore.errors import ExchangeOrderError, LeaseLostError
from longshore.records import pauses
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import numbers, snapshot
from longshore.testing.factories import SECOND, a_job
from longshore.testing.manual import LEASE, a_worker, reference


async def test_the_last_exchange_sent_again_returns_the_same_claims(engine: Engine) -> None:
    await engine.submit([a_job(priority=priority) for priority in (5, 1, 9, 5)])
    worker = await a_worker(engine)
    first = await worker.exchange(want=3)
    await engine.submit([a_job(priority=1)])

    second = await worker.repeat()

    assert second.claims == first.claims
    assert len(first.claims) == 3


async def test_a_repeated_exchange_returns_the_same_claims_though_they_have_started(
    engine: Engine,
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    first = await worker.exchange(want=1)
    await worker.session.renew(started=[reference(first.claims[0])])

    second = await worker.repeat()

    assert second.claims == first.claims


async def test_a_repeated_exchange_returns_claims_in_the_order_of_its_queues(
    engine: Engine,
) -> None:
    await engine.submit([a_job(queue="b"), a_job(queue="a"), a_job(queue="b")])
    worker = await a_worker(engine, queues=["a", "b"])
    first = await worker.exchange(want=3)

    second = await worker.repeat()

    assert [claim.queue for claim in first.claims] == ["a", "b", "b"]
    assert second.claims == first.claims


async def test_the_last_exchange_sent_again_claims_nothing_more(engine: Engine) -> None:
    await engine.submit([a_job() for _ in range(4)])
    worker = await a_worker(engine)
    await worker.exchange(want=2)

    await worker.repeat()

    (queue,) = await engine.counts()
    assert (queue.running, queue.ready) == (2, 2)


async def test_an_exchange_that_found_nothing_claims_nothing_when_it_is_sent_again(
    engine: Engine,
) -> None:
    worker = await a_worker(engine)
    found = [await worker.exchange(want=2) for _ in range(3)]
    await engine.submit([a_job()])

    found.append(await worker.repeat())

    assert [answer.claims for answer in found] == [[], [], [], []]
    assert len(await worker.claim(2)) == 1


async def test_the_last_exchange_sent_again_settles_nothing_twice(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job() for _ in range(3)])
    worker = await a_worker(engine)
    done, raised, back = await worker.claim(3)
    now = clock.now()
    why = settle.failure("ValueError", "no")
    await worker.settle(
        settle.succeeded(done, started_at=now, finished_at=now),
        settle.failed(raised, why, delay=SECOND, started_at=now, finished_at=now),
        settle.released(back),
    )
    before = await snapshot(engine, done.id, raised.id, back.id)

    answer = await worker.repeat()

    assert answer.stale == []
    assert await snapshot(engine, done.id, raised.id, back.id) == before


async def test_a_repeated_exchange_does_not_settle_what_was_claimed_since(
    engine: Engine,
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    other = await a_worker(engine, name="worker-2")
    (claim,) = await worker.claim()
    await worker.release(claim)
    await other.claim()

    await worker.repeat()

    job = await engine.get(claim.id)
    assert (job.state, job.worker, job.delivery) == (State.RUNNING, "worker-2", 2)


async def test_the_last_exchange_sent_again_names_the_same_stale_claims(
    engine: Engine,
) -> None:
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    kept, lost = await worker.claim(2)
    await worker.release(lost)
    first = await worker.settle(settle.released(kept), settle.released(lost))

    second = await worker.repeat()

    assert first.stale == second.stale == [reference(lost)]


async def test_a_repeated_exchange_counts_its_starts_once(engine: Engine) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await worker.start(claim)

    await worker.repeat()

    assert numbers(await engine.get(claim.id)) == (1, 1, 0, 0, 0)


async def test_a_repeated_exchange_tells_of_cancels_asked_for_meanwhile(
    engine: Engine,
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await engine.change("cancel", [claim.id], reason="no longer needed")

    answer = await worker.repeat()

    assert answer.cancel == [reference(claim)]


@pytest.mark.parametrize("number", [-1, 0, 1, 2, 5])
async def test_a_number_that_does_not_follow_is_refused(engine: Engine, number: int) -> None:
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await worker.exchange()
    await worker.exchange()
    before = await snapshot(engine, claim.id)

    with pytest.raises(ExchangeOrderError) as caught:
        await worker.session.exchange(number, settlements=[settle.released(claim)], want=1)

    assert (caught.value.number, caught.value.last) == (number, 3)
    assert await snapshot(engine, claim.id) == before


@pytest.mark.parametrize("number", [0, 2])
async def test_the_first_exchange_has_the_number_one(engine: Engine, number: int) -> None:
    worker = await a_worker(engine)

    with pytest.raises(ExchangeOrderError):
        await worker.session.exchange(number, want=1)


async def test_every_session_counts_its_own_exchanges(engine: Engine) -> None:
    await engine.submit([a_job(), a_job()])
    first, second = await a_worker(engine), await a_worker(engine)
    await first.exchange()
    await first.exchange()

    (claim,) = await second.claim()

    assert claim.delivery == 1


async def test_an_exchange_that_was_refused_does_not_use_up_its_number(engine: Engine) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    with pytest.raises(ExchangeOrderError):
        await worker.session.exchange(2, want=1)

    claims = (await worker.session.exchange(1, want=1)).claims

    assert len(claims) == 1


async def test_a_lapsed_session_cannot_even_repeat(engine: Engine, clock: ManualClock) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    await worker.claim()
    clock.advance(LEASE)

    with pytest.raises(LeaseLostError):
        await worker.repeat()


async def test_the_last_exchange_sent_again_still_says_that_its_queues_are_paused(
    engine: Engine,
) -> None:
    await pauses.pause(engine, queue="default")
    worker = await a_worker(engine)

    first = await worker.exchange(want=1)
    again = await worker.repeat()

    assert (first.is_paused, again.is_paused) == (True, True)
