import pytest

from longshore.contract import Engine
from longshore.core import settle
from longshore.core.job import Failure
from longshore.core.state import SETTLING, State, Verb, after
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import numbers, snapshot
from longshore.testing.factories import a_job, a_settlement
from longshore.testing.manual import LEASE, a_worker, reclaim_lapsed, reference


async def test_a_stale_lease_cannot_settle_a_job_that_was_claimed_again(
    engine: Engine, clock: ManualClock
) -> None:
    """The session lives, the delivery is old: the delivery alone must hold it off."""
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (old,) = await worker.claim()
    await worker.release(old)
    (new,) = await worker.claim()

    answer = await worker.succeed(old)

    job = await engine.get(new.id)
    assert answer.stale == [reference(old)]
    assert (job.state, job.delivery, job.result) == (State.RUNNING, 2, None)


@pytest.mark.parametrize("verb", sorted(SETTLING - {Verb.RECLAIM}))
async def test_another_sessions_claim_cannot_be_settled(engine: Engine, verb: Verb) -> None:
    """Same handle, same delivery: the token alone must hold it off."""
    await engine.submit([a_job()])
    holder, other = await a_worker(engine), await a_worker(engine)
    (claim,) = await holder.claim()
    before = await snapshot(engine, claim.id)

    answer = await other.settle(a_settlement(claim, verb, charge=True))

    assert answer.stale == [reference(claim)]
    assert await snapshot(engine, claim.id) == before


async def test_a_claim_is_settled_only_once(engine: Engine) -> None:
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    killed, released = await worker.claim(2)
    await worker.kill(killed)
    await worker.release(released)
    before = await snapshot(engine, killed.id, released.id)

    answer = await worker.settle(settle.released(killed), settle.released(released))

    assert sorted(answer.stale) == sorted([reference(killed), reference(released)])
    assert await snapshot(engine, killed.id, released.id) == before


async def test_a_settlement_sent_again_under_a_new_number_is_harmless(
    engine: Engine,
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await worker.succeed(claim, b"1")
    before = await snapshot(engine, claim.id)

    await worker.succeed(claim, b"2")

    assert await snapshot(engine, claim.id) == before


async def test_stale_settlements_do_not_hold_up_the_others(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job() for _ in range(4)])
    worker = await a_worker(engine)
    first, lost, third, unknown = await worker.claim(4)
    await worker.settle(settle.released(lost), settle.released(unknown))
    now = clock.now()

    answer = await worker.settle(
        settle.succeeded(first, started_at=now, finished_at=now),
        settle.succeeded(lost, started_at=now, finished_at=now),
        settle.killed(third, Failure("E", "e"), "e", started_at=now, finished_at=now),
        a_settlement(unknown, Verb.SUCCEED, handle=99_999),
    )

    assert sorted(answer.stale) == sorted([reference(lost), (99_999, 1)])
    assert (await engine.get(first.id)).state is State.SUCCEEDED
    assert (await engine.get(lost.id)).state is State.READY
    assert (await engine.get(third.id)).state is State.DEAD


async def test_a_worker_that_comes_back_late_cannot_settle_what_others_run_now(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job()])
    late = await a_worker(engine, name="late")
    (old,) = await late.claim()
    clock.advance(LEASE)
    await reclaim_lapsed(engine)
    fresh = await a_worker(engine, name="fresh")
    (new,) = await fresh.claim()
    back = await a_worker(engine, name="late")

    answer = await back.succeed(old)

    job = await engine.get(new.id)
    assert answer.stale == [reference(old)]
    assert (job.state, job.worker) == (State.RUNNING, "fresh")


@pytest.mark.parametrize("verb", sorted(SETTLING - {Verb.RECLAIM}))
async def test_of_two_deliveries_of_one_job_only_the_later_is_settled(
    engine: Engine, verb: Verb
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (first,) = await worker.claim()
    await worker.settle(settle.released(first))
    (second,) = await worker.claim()

    answer = await worker.settle(a_settlement(first, verb), a_settlement(second, verb))

    job = await engine.get(first.id)
    assert answer.stale == [reference(first)]
    assert job.state is after(State.RUNNING, verb)
    assert job.delivery == 2


@pytest.mark.parametrize("verb", sorted(SETTLING - {Verb.RECLAIM}))
async def test_a_stale_delivery_is_refused_wherever_it_stands_in_an_exchange(
    engine: Engine, verb: Verb
) -> None:
    """The session holds every job that is named; only the delivery tells what is over."""
    await engine.submit([a_job() for _ in range(4)])
    worker = await a_worker(engine)
    first, *old, last = await worker.claim(4)
    await worker.settle(*(settle.released(claim) for claim in old))
    again = await worker.claim(2)

    answer = await worker.settle(
        a_settlement(first, verb),
        *(a_settlement(claim, verb) for claim in old),
        a_settlement(last, verb),
    )

    assert answer.stale == [reference(claim) for claim in old]
    assert [(await engine.get(one.id)).state for one in (first, last)] == [
        after(State.RUNNING, verb),
        after(State.RUNNING, verb),
    ]
    for claim in again:
        job = await engine.get(claim.id)
        assert (job.state, job.delivery) == (State.RUNNING, 2)
        assert numbers(job) == (2, 0, 0, 0, 0)


async def test_a_start_of_an_old_delivery_does_not_start_the_new_one(engine: Engine) -> None:
    """The session holds the job again: only the delivery tells that the start is an old one."""
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (old,) = await worker.claim()
    await worker.release(old)
    (new,) = await worker.claim()
    before = await snapshot(engine, new.id)

    await worker.start(old)
    await worker.session.renew(started=[reference(old)])

    assert await snapshot(engine, new.id) == before


async def test_a_worker_that_names_an_old_delivery_as_held_hears_that_it_is_lost(
    engine: Engine,
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (old,) = await worker.claim()
    await worker.release(old)
    (new,) = await worker.claim()

    answer = await worker.renew(holding=[old, new])

    assert (answer.lost, answer.released) == ([reference(old)], 0)


async def test_closing_a_session_that_has_lapsed_leaves_its_jobs_to_reclaim(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await worker.start(claim)
    clock.advance(LEASE)

    await worker.session.close()

    assert (await engine.get(claim.id)).state is State.RUNNING
    assert await reclaim_lapsed(engine) == 1
    assert numbers(await engine.get(claim.id)) == (1, 1, 0, 1, 0)
