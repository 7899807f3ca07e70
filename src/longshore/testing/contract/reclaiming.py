import asyncio

import pytest

from longshore.contract import Engine, Lapsed, Losses
from longshore.core import ids, poison, settle
from longshore.core.job import Death, Held
from longshore.core.state import State, Verb
from longshore.errors import IllegalTransitionError
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import numbers, snapshot
from longshore.testing.factories import HOUR, MINUTE, SECOND, a_job, a_settlement
from longshore.testing.manual import LEASE, a_worker, reclaim_lapsed, reference

GRACE = 2 * SECOND


async def test_half_a_claim_finished_then_the_worker_dies(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job() for _ in range(8)])
    worker = await a_worker(engine)
    claims = await worker.claim(8)
    finished, started, buffered = claims[:3], claims[3:5], claims[5:]
    for claim in finished:
        await worker.succeed(claim)
    await worker.start(*started)
    clock.advance(LEASE)

    settled = await reclaim_lapsed(engine)

    assert settled == 5
    for claim in finished:
        job = await engine.get(claim.id)
        assert (job.state, numbers(job)) == (State.SUCCEEDED, (1, 1, 0, 0, 0))
    for claim in started:
        job = await engine.get(claim.id)
        assert (job.state, numbers(job)) == (State.READY, (1, 1, 0, 1, 0))
        assert job.failure is not None
        assert job.failure.kind == "crash"
    for claim in buffered:
        job = await engine.get(claim.id)
        assert (job.state, numbers(job)) == (State.READY, (1, 0, 0, 0, 1))


async def test_a_lapsed_session_is_listed_with_all_it_held(
    engine: Engine, clock: ManualClock
) -> None:
    new = a_job(tenant="acme", max_attempts=3)
    await engine.submit([new, a_job()])
    worker = await a_worker(engine, name="host-7:1")
    started, buffered = await worker.claim(2)
    await worker.start(started)
    started_at = clock.now()
    await engine.change("cancel", [buffered.id], reason="no longer needed")
    clock.advance(LEASE)

    (lapsed,) = await engine.expired_sessions(grace=0, limit=10)

    assert (lapsed.token, lapsed.worker) == (worker.session.token, "host-7:1")
    assert sorted(held.id for held in lapsed.held) == [started.id, buffered.id]
    first, second = sorted(lapsed.held, key=lambda held: held.id)
    assert first == Held(
        handle=started.handle,
        delivery=1,
        id=new.id,
        type="noop",
        queue="default",
        tenant="acme",
        started_at=started_at,
        attempt=1,
        failures=0,
        crashes=0,
        lapses=0,
        max_attempts=3,
        cancel_requested=False,
        alone=False,
    )
    assert (second.started_at, second.cancel_requested) == (None, True)


async def test_a_job_that_was_held_alone_is_listed_as_such(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    await worker.claim()
    clock.advance(LEASE)

    (lapsed,) = await engine.expired_sessions(grace=0, limit=10)

    assert [held.alone for held in lapsed.held] == [True]


async def test_a_session_is_listed_only_when_the_grace_is_over(
    engine: Engine, clock: ManualClock
) -> None:
    worker = await a_worker(engine)
    clock.advance(LEASE + GRACE - 1)
    early = await engine.expired_sessions(grace=GRACE, limit=10)
    clock.advance(2)

    late = await engine.expired_sessions(grace=GRACE, limit=10)

    assert early == []
    assert late == [Lapsed(worker.session.token, "worker-1", [])]


async def test_a_session_that_held_nothing_is_buried_too(
    engine: Engine, clock: ManualClock
) -> None:
    await a_worker(engine)
    clock.advance(LEASE)
    await reclaim_lapsed(engine)

    assert await engine.expired_sessions(grace=0, limit=10) == []


async def test_sessions_are_listed_up_to_the_limit_longest_lapsed_first(
    engine: Engine, clock: ManualClock
) -> None:
    workers = [await a_worker(engine, lease=lease) for lease in (3, 1, 2)]
    clock.advance(MINUTE)

    lapsed = await engine.expired_sessions(grace=0, limit=2)

    tokens = [worker.session.token for worker in workers]
    assert [one.token for one in lapsed] == [tokens[1], tokens[2]]


async def test_closed_and_live_sessions_are_never_listed(
    engine: Engine, clock: ManualClock
) -> None:
    closed, live = await a_worker(engine), await a_worker(engine)
    await closed.session.close()
    clock.advance(LEASE - 1)
    await live.session.renew()
    clock.advance(LEASE - 1)

    assert await engine.expired_sessions(grace=0, limit=10) == []


async def test_of_two_reclaimers_one_wins(engine: Engine, clock: ManualClock) -> None:
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    claims = await worker.claim(2)
    clock.advance(LEASE)
    (lapsed,) = await engine.expired_sessions(grace=0, limit=10)
    settlements = [settle.lost(held) for held in lapsed.held]

    settled = await asyncio.gather(
        *(engine.end_session(lapsed.token, settlements, grace=0) for _ in range(3))
    )

    assert sorted(settled) == [0, 0, 2]
    for claim in claims:
        assert numbers(await engine.get(claim.id)) == (1, 0, 0, 0, 1)


async def test_a_late_reclaimer_does_not_touch_what_others_run_now(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job()])
    dead = await a_worker(engine)
    await dead.claim()
    clock.advance(LEASE)
    (lapsed,) = await engine.expired_sessions(grace=0, limit=10)
    settlements = [settle.lost(held) for held in lapsed.held]
    await engine.end_session(lapsed.token, settlements, grace=0)
    fresh = await a_worker(engine)
    (claim,) = await fresh.claim()
    before = await snapshot(engine, claim.id)

    settled = await engine.end_session(lapsed.token, settlements, grace=0)

    assert settled == 0
    assert await snapshot(engine, claim.id) == before


async def test_a_renewed_session_cannot_be_reclaimed(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    lost = a_settlement(claim, Verb.RECLAIM, lapse=True)
    clock.advance(LEASE - 1)
    await worker.session.renew()
    clock.advance(SECOND)

    settled = await engine.end_session(worker.session.token, [lost], grace=0)

    assert settled == 0
    assert (await worker.succeed(claim)).stale == []
    assert numbers(await engine.get(claim.id)) == (1, 1, 0, 0, 0)


async def test_reclaim_keeps_to_its_grace(engine: Engine, clock: ManualClock) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    clock.advance(LEASE + SECOND)

    settled = await engine.end_session(worker.session.token, [], grace=GRACE)

    assert settled == 0
    assert (await engine.get(claim.id)).state is State.RUNNING


async def test_what_a_reclaim_leaves_out_is_released(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    named, left_out = await worker.claim(2)
    clock.advance(LEASE)

    settled = await engine.end_session(
        worker.session.token, [a_settlement(named, Verb.RECLAIM, lapse=True)], grace=0
    )

    assert settled == 2
    assert numbers(await engine.get(named.id)) == (1, 0, 0, 0, 1)
    assert numbers(await engine.get(left_out.id)) == (1, 0, 0, 0, 0)
    assert (await engine.get(left_out.id)).state is State.READY


async def test_reclaim_settles_nothing_that_another_session_holds(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job(), a_job()])
    dead, live = await a_worker(engine), await a_worker(engine, lease=10 * LEASE)
    await dead.claim()
    (claim,) = await live.claim()
    clock.advance(LEASE)
    forged = a_settlement(claim, Verb.KILL, charge=True, reason="forged")

    await engine.end_session(dead.session.token, [forged], grace=0)

    job = await engine.get(claim.id)
    assert (job.state, job.reason) == (State.RUNNING, None)


async def test_reclaiming_an_unknown_session_does_nothing(engine: Engine) -> None:
    assert await engine.end_session(12_345, [], grace=0) == 0


async def test_reclaim_refuses_a_verb_that_ends_no_claim(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    clock.advance(LEASE)
    before = await snapshot(engine, claim.id)

    with pytest.raises(IllegalTransitionError):
        await engine.end_session(
            worker.session.token, [a_settlement(claim, Verb.REPLAY)], grace=0
        )

    assert await snapshot(engine, claim.id) == before
    assert len(await engine.expired_sessions(grace=0, limit=10)) == 1


async def test_a_job_whose_cancel_was_requested_is_cancelled_when_its_worker_dies(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await worker.start(claim)
    await engine.change("cancel", [claim.id], reason="no longer needed")
    clock.advance(LEASE)

    await reclaim_lapsed(engine)

    job = await engine.get(claim.id)
    assert (job.state, job.finished_at) == (State.CANCELLED, clock.now())
    assert numbers(job) == (1, 1, 0, 0, 0)


async def test_many_crashes_cost_no_failure(engine: Engine, clock: ManualClock) -> None:
    new = a_job(max_attempts=1)
    await engine.submit([new])
    for _ in range(3):
        worker = await a_worker(engine)
        (claim,) = await worker.claim()
        await worker.session.renew(started=[reference(claim)])
        clock.advance(LEASE)
        await reclaim_lapsed(engine)

    job = await engine.get(new.id)

    assert job.state is State.READY
    assert numbers(job) == (3, 3, 0, 3, 0)


async def test_a_clock_set_back_does_not_strand_what_a_dead_worker_held(
    engine: Engine, clock: ManualClock
) -> None:
    """One lease after the scheduler's next look it is over, however far the clock went."""
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    clock.step(-HOUR)

    assert await reclaim_lapsed(engine) == 0
    clock.advance(LEASE - 1)
    assert await reclaim_lapsed(engine) == 0
    clock.advance(1)

    assert await reclaim_lapsed(engine) == 1
    assert (await engine.get(claim.id)).state is State.READY


async def test_a_clock_set_back_costs_no_living_worker_its_lease(
    engine: Engine, clock: ManualClock
) -> None:
    worker = await a_worker(engine)
    clock.step(-HOUR)

    for _ in range(6):
        assert await engine.expired_sessions(grace=0, limit=10) == []
        clock.advance(LEASE // 3)
        await worker.session.renew()

    assert [one.expires_at for one in (await engine.sessions()).sessions] == [
        clock.now() + LEASE
    ]


async def test_history_keeps_who_died_beside_a_job(engine: Engine, clock: ManualClock) -> None:
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    claims = await worker.claim(2)
    await worker.start(*claims)
    clock.advance(LEASE)

    await reclaim_lapsed(engine)

    first, second = claims
    for claim, other in ((first, second), (second, first)):
        (crash,) = await engine.attempts(claim.id)
        assert (crash.outcome, crash.started_at is None) == ("crashed", False)
        expected = Death(beside=1, victims=(ids.text(other.id),))
        assert poison.death_of(crash.failure) == expected
        assert poison.death_of((await engine.get(claim.id)).failure) == expected


async def test_a_worker_that_vanished_with_jobs_is_counted_once_however_it_was_noticed(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job() for _ in range(6)])
    lapsing = await a_worker(engine, name="lapsing")
    await lapsing.claim(2)
    crashed = await a_worker(engine, name="crashed")
    await crashed.claim(3)
    await a_worker(engine, name="idle")
    leaving = await a_worker(engine, name="leaving")
    await leaving.claim()
    await leaving.session.close()

    token = crashed.session.token
    await engine.end_session(token, [])
    await engine.end_session(token, [])
    clock.advance(2 * LEASE)
    await reclaim_lapsed(engine)
    await reclaim_lapsed(engine)

    assert (await engine.sessions()).losses == Losses(workers=2, jobs=5)


async def test_a_clock_set_back_lengthens_no_lease(engine: Engine, clock: ManualClock) -> None:
    long = await a_worker(engine, lease=LEASE)
    clock.advance(LEASE // 2)
    short = await a_worker(engine, lease=LEASE // 6)
    clock.step(-LEASE // 3)

    await engine.expired_sessions(grace=0, limit=10)

    ends = {
        one.token: one.expires_at - clock.now() for one in (await engine.sessions()).sessions
    }
    assert ends == {
        long.session.token: LEASE - LEASE // 2 + LEASE // 3,
        short.session.token: LEASE // 6,
    }
