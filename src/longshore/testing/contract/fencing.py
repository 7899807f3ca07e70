import pytest

from longshore.core import settle
from longshore.core.job import Failure
from longshore.core.state import SETTLING, State, Verb, after
from longshore.engine import Engine
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import snapshot
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


async def test_another_sessions_claim_cannot_be_settled(engine: Engine) -> None:
    """Same handle, same delivery: the token alone must hold it off."""
    await engine.submit([a_job()])
    holder, other = await a_worker(engine), await a_worker(engine)
    (claim,) = await holder.claim()

    answer = await other.succeed(claim)

    assert answer.stale == [reference(claim)]
    assert (await engine.get(claim.id)).state is State.RUNNING


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
