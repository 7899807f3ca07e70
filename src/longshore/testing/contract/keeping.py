import asyncio

import pytest

from longshore.contract import Engine
from longshore.core import settle
from longshore.core.state import State, Verb
from longshore.errors import IllegalTransitionError, LeaseLostError
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import events_of, numbers, snapshot
from longshore.testing.factories import SECOND, a_failure, a_job, a_settlement
from longshore.testing.manual import LEASE, a_worker, heard, reclaim_lapsed, reference


async def test_a_keeper_renews_a_session_by_its_token(
    engine: Engine, clock: ManualClock
) -> None:
    worker = await a_worker(engine)
    clock.advance(10 * SECOND)

    renewed = await engine.renew(worker.session.token)

    assert (renewed.now, renewed.expires_at) == (clock.now(), clock.now() + LEASE)
    assert ((await engine.sessions()).sessions)[0].expires_at == clock.now() + LEASE


async def test_a_session_that_only_its_keeper_renewed_goes_on_working(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    for _ in range(5):
        clock.advance(LEASE - SECOND)
        await engine.renew(worker.session.token)

    answer = await worker.succeed(claim)

    assert answer.stale == []
    assert (await engine.get(claim.id)).state is State.SUCCEEDED
    assert len(await worker.claim()) == 1


async def test_a_keeper_releases_nothing_by_renewing(engine: Engine) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()

    renewed = await engine.renew(worker.session.token)

    assert (renewed.cancel, renewed.lost, renewed.released) == ([], [], 0)
    assert (await engine.get(claim.id)).state is State.RUNNING


@pytest.mark.parametrize("late", [0, 1, LEASE])
async def test_a_keeper_never_revives_a_lapsed_lease(
    engine: Engine, clock: ManualClock, late: int
) -> None:
    worker = await a_worker(engine)
    clock.advance(LEASE + late)

    with pytest.raises(LeaseLostError) as caught:
        await engine.renew(worker.session.token)

    assert caught.value.token == worker.session.token
    assert (await engine.sessions()).sessions == []


async def test_a_keeper_never_shortens_a_lease(engine: Engine, clock: ManualClock) -> None:
    worker = await a_worker(engine)
    end = (await engine.renew(worker.session.token)).expires_at
    clock.step(-10 * SECOND)

    assert (await engine.renew(worker.session.token)).expires_at >= end


async def test_a_keeper_cannot_renew_what_has_ended(engine: Engine) -> None:
    worker = await a_worker(engine)
    await worker.session.close()

    for token in (worker.session.token, 12_345):
        with pytest.raises(LeaseLostError):
            await engine.renew(token)


async def test_a_keeper_sees_all_that_a_live_session_holds(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job() for _ in range(4)])
    worker = await a_worker(engine)
    done, started, buffered, unwanted = await worker.claim(4)
    await worker.succeed(done)
    await worker.start(started)
    await engine.change("cancel", [unwanted.id], reason="no longer needed")

    held = await engine.held(worker.session.token)

    assert held is not None
    facts = {one.id: (one.started_at, one.cancel_requested, one.alone) for one in held}
    assert facts == {
        started.id: (clock.now(), False, False),
        buffered.id: (None, False, False),
        unwanted.id: (None, True, False),
    }
    assert {(one.handle, one.delivery) for one in held} == {
        reference(claim) for claim in (started, buffered, unwanted)
    }


async def test_a_session_that_holds_nothing_is_not_one_that_has_ended(engine: Engine) -> None:
    idle, gone = await a_worker(engine), await a_worker(engine)
    await gone.session.close()

    assert await engine.held(idle.session.token) == []
    assert await engine.held(gone.session.token) is None
    assert await engine.held(12_345) is None


async def test_a_lapsed_session_that_nobody_reclaimed_can_still_be_looked_at(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    clock.advance(2 * LEASE)

    held = await engine.held(worker.session.token)

    assert held is not None
    assert [(one.id, one.alone) for one in held] == [(claim.id, True)]


async def test_burying_a_live_session_settles_each_job_as_its_end_was_seen(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job(max_attempts=2) for _ in range(5)])
    worker = await a_worker(engine)
    done, failed, running, buffered, unheard = await worker.claim(5)
    await worker.start(running)
    clock.advance(SECOND)
    held = {one.id: one for one in await engine.held(worker.session.token) or []}
    at = {"started_at": clock.now() - 5, "finished_at": clock.now()}

    settled = await engine.end_session(
        worker.session.token,
        [
            settle.succeeded(done, **at, result=b'"ok"'),
            settle.failed(failed, a_failure(), delay=SECOND, **at),
            settle.lost(held[running.id]),
            settle.released(buffered),
        ],
    )

    assert settled == 5
    found = {claim.id: await engine.get(claim.id) for claim in (done, failed, running)}
    assert (found[done.id].state, found[done.id].result) == (State.SUCCEEDED, b'"ok"')
    assert numbers(found[done.id]) == (1, 1, 0, 0, 0)
    assert (found[failed.id].state, numbers(found[failed.id])) == (
        State.SCHEDULED,
        (1, 1, 1, 0, 0),
    )
    assert (found[running.id].state, numbers(found[running.id])) == (
        State.READY,
        (1, 1, 0, 1, 0),
    )
    for claim in (buffered, unheard):
        job = await engine.get(claim.id)
        assert (job.state, numbers(job)) == (State.READY, (1, 0, 0, 0, 0))
    assert (await engine.sessions()).sessions == []


async def test_a_start_that_only_the_burial_tells_of_is_told_before_its_end(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    lost = a_settlement(claim, Verb.RECLAIM, crash=True, started_at=clock.now())

    await engine.end_session(worker.session.token, [lost])

    assert [str(name) for name in await events_of(engine, claim.id)][1:] == [
        "job.started",
        "job.reclaimed",
    ]
    assert numbers(await engine.get(claim.id)) == (1, 1, 0, 1, 0)


async def test_what_was_buried_is_there_for_others_at_once(engine: Engine) -> None:
    await engine.submit([a_job()])
    dead, other = await a_worker(engine), await a_worker(engine)
    (claim,) = await dead.claim()

    await engine.end_session(dead.session.token, [settle.released(claim)])

    (again,) = await other.claim()
    assert (again.id, again.delivery) == (claim.id, 2)


async def test_a_burial_wakes_those_who_wait_for_work(engine: Engine) -> None:
    await engine.submit([a_job()])
    dead, other = await a_worker(engine), await a_worker(engine)
    await dead.claim()
    await other.claim()
    waiting = asyncio.ensure_future(other.session.wait(30))
    await heard(engine)

    await engine.end_session(dead.session.token, [])

    async with asyncio.timeout(10):
        await waiting


async def test_a_burial_sent_again_changes_nothing(engine: Engine) -> None:
    await engine.submit([a_job(), a_job()])
    dead, other = await a_worker(engine), await a_worker(engine)
    claims = await dead.claim(2)
    settlements = [settle.released(claim) for claim in claims]
    await engine.end_session(dead.session.token, settlements)
    await other.claim(2)
    before = await snapshot(engine, *(claim.id for claim in claims))

    settled = await engine.end_session(dead.session.token, settlements)

    assert settled == 0
    assert await snapshot(engine, *(claim.id for claim in claims)) == before


async def test_of_keepers_and_reclaimers_one_buries(engine: Engine, clock: ManualClock) -> None:
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    claims = await worker.claim(2)
    clock.advance(LEASE)
    token, lost = worker.session.token, [settle.released(claim) for claim in claims]

    settled = await asyncio.gather(
        engine.end_session(token, lost),
        engine.end_session(token, lost, grace=0),
        engine.end_session(token, lost),
    )

    assert sorted(settled) == [0, 0, 2]
    for claim in claims:
        assert numbers(await engine.get(claim.id)) == (1, 0, 0, 0, 0)


async def test_a_buried_session_can_do_nothing(engine: Engine) -> None:
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await engine.end_session(worker.session.token, [])
    before = await snapshot(engine, claim.id)

    with pytest.raises(LeaseLostError):
        await worker.succeed(claim)
    with pytest.raises(LeaseLostError):
        await worker.session.renew(started=[reference(claim)])
    with pytest.raises(LeaseLostError):
        await engine.renew(worker.session.token)
    await worker.session.close()

    assert await snapshot(engine, claim.id) == before


async def test_a_burial_settles_nothing_that_another_session_holds(engine: Engine) -> None:
    await engine.submit([a_job(), a_job()])
    dead, live = await a_worker(engine), await a_worker(engine)
    await dead.claim()
    (claim,) = await live.claim()
    forged = a_settlement(claim, Verb.KILL, charge=True, reason="forged")

    settled = await engine.end_session(dead.session.token, [forged])

    assert settled == 1
    assert (await engine.get(claim.id)).state is State.RUNNING
    assert (await live.succeed(claim)).stale == []


async def test_a_burial_settles_nothing_of_an_earlier_delivery(engine: Engine) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (first,) = await worker.claim()
    await worker.release(first)
    (second,) = await worker.claim()
    old = settle.succeeded(first, started_at=1, finished_at=2)

    await engine.end_session(worker.session.token, [old])

    job = await engine.get(second.id)
    assert (job.state, numbers(job)) == (State.READY, (2, 0, 0, 0, 0))


async def test_a_burial_refuses_a_verb_that_ends_no_claim(engine: Engine) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    before = await snapshot(engine, claim.id)

    with pytest.raises(IllegalTransitionError):
        await engine.end_session(worker.session.token, [a_settlement(claim, Verb.REPLAY)])

    assert await snapshot(engine, claim.id) == before
    assert (await worker.succeed(claim)).stale == []


async def test_a_cancel_that_the_dead_worker_had_not_heard_of_is_heeded(engine: Engine) -> None:
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    ran, waited = await worker.claim(2)
    await engine.change("cancel", [ran.id, waited.id], reason="no longer needed")
    crash = a_settlement(ran, Verb.RECLAIM, crash=True, started_at=await engine.now())

    await engine.end_session(worker.session.token, [crash])

    for claim in (ran, waited):
        job = await engine.get(claim.id)
        assert (job.state, job.reason) == (State.CANCELLED, "no longer needed")


async def test_burying_what_does_not_exist_does_nothing(
    engine: Engine, clock: ManualClock
) -> None:
    worker = await a_worker(engine)
    clock.advance(LEASE)
    await reclaim_lapsed(engine)

    assert await engine.end_session(worker.session.token, []) == 0
    assert await engine.end_session(12_345, []) == 0
