import pytest

from longshore.contract import Engine
from longshore.core import settle
from longshore.core.limit_settings import Layer, QueueSettings
from longshore.core.responses import Share
from longshore.core.state import State
from longshore.errors import LeaseLostError
from longshore.records import queue_settings
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import numbers, snapshot
from longshore.testing.factories import SECOND, a_claim, a_job
from longshore.testing.manual import LEASE, a_worker, reclaim_lapsed, reference


async def test_a_renewal_pushes_the_end_a_full_lease_into_the_future(
    engine: Engine, clock: ManualClock
) -> None:
    worker = await a_worker(engine)
    clock.advance(10 * SECOND)

    renewed = await worker.session.renew()

    assert (renewed.now, renewed.expires_at) == (clock.now(), clock.now() + LEASE)
    assert ((await engine.sessions()).sessions)[0].expires_at == clock.now() + LEASE


async def test_a_renewed_session_outlives_its_first_lease(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    for _ in range(5):
        clock.advance(LEASE - SECOND)
        await worker.session.renew()

    answer = await worker.succeed(claim)

    assert answer.stale == []
    assert (await engine.get(claim.id)).state is State.SUCCEEDED


async def test_a_renewal_never_shortens_a_lease(engine: Engine, clock: ManualClock) -> None:
    worker = await a_worker(engine)
    end = (await worker.session.renew()).expires_at
    clock.step(-10 * SECOND)

    renewed = await worker.session.renew()

    assert renewed.expires_at >= end


async def test_a_renewal_tells_with_how_many_others_a_session_shares_its_queues(
    engine: Engine, clock: ManualClock
) -> None:
    await queue_settings.put(engine, "mail", Layer.OVERRIDDEN, QueueSettings(retry_rate=12.5))
    await queue_settings.put(engine, "bulk", Layer.OVERRIDDEN, QueueSettings(rate=5.0))
    gone = await a_worker(engine, queues=("mail",))
    clock.advance(LEASE // 2)
    first = await a_worker(engine, queues=("mail",))
    second = await a_worker(engine, queues=("bulk", "mail"))
    left = await a_worker(engine, queues=("mail", "other"))
    assert (await left.session.renew()).shares[0] == Share("mail", 3, 4, 12.5)
    await left.session.close()
    clock.advance(LEASE // 2)

    shares = (await second.session.renew()).shares

    assert shares == [Share("bulk", 0, 1, rate=5.0), Share("mail", 1, 2, 12.5)]
    assert (await first.session.renew()).shares == [Share("mail", 0, 2, 12.5)]
    assert gone.session.token < first.session.token


@pytest.mark.parametrize("late", [0, 1, LEASE])
async def test_a_renewal_never_revives_a_lapsed_lease(
    engine: Engine, clock: ManualClock, late: int
) -> None:
    worker = await a_worker(engine)
    clock.advance(LEASE + late)

    with pytest.raises(LeaseLostError) as caught:
        await worker.session.renew()

    assert caught.value.token == worker.session.token
    assert (await engine.sessions()).sessions == []


async def test_a_lease_holds_until_its_very_end(engine: Engine, clock: ManualClock) -> None:
    worker = await a_worker(engine)
    clock.advance(LEASE - 1)

    renewed = await worker.session.renew()

    assert renewed.expires_at == clock.now() + LEASE


async def test_a_lapsed_session_can_do_nothing(engine: Engine, clock: ManualClock) -> None:
    await engine.submit([a_job(), a_job(), a_job()])
    worker = await a_worker(engine)
    done, started = await worker.claim(2)
    clock.advance(LEASE)
    await a_worker(engine, name="live")
    before = await snapshot(engine, done.id, started.id)

    with pytest.raises(LeaseLostError):
        await worker.exchange(
            started=[reference(started)],
            settlements=[settle.succeeded(done, started_at=1, finished_at=2)],
            want=1,
        )
    with pytest.raises(LeaseLostError):
        await worker.session.renew(started=[reference(started)], number=9, held=[])

    assert await snapshot(engine, done.id, started.id) == before


@pytest.mark.parametrize("want", [0, 1])
async def test_a_session_that_found_nothing_cannot_go_on_past_its_lease(
    engine: Engine, clock: ManualClock, want: int
) -> None:
    """One that lives found nothing either, and is of no help to it."""
    worker = await a_worker(engine)
    assert [await worker.claim() for _ in range(2)] == [[], []]
    clock.advance(LEASE)
    live = await a_worker(engine, name="live")
    assert [await live.claim() for _ in range(2)] == [[], []]

    with pytest.raises(LeaseLostError):
        await worker.exchange(want=want)

    assert await live.claim() == []


async def test_a_reclaimed_session_can_do_nothing(engine: Engine, clock: ManualClock) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    clock.advance(LEASE)
    await reclaim_lapsed(engine)
    await a_worker(engine, name="live")

    with pytest.raises(LeaseLostError):
        await worker.succeed(claim)
    with pytest.raises(LeaseLostError):
        await worker.session.renew()

    assert (await engine.get(claim.id)).state is State.READY


async def test_a_renewal_releases_claims_the_worker_never_heard_of(engine: Engine) -> None:
    await engine.submit([a_job() for _ in range(3)])
    worker = await a_worker(engine)
    known, unheard, _ = await worker.claim(3)

    renewed = await worker.renew(holding=[known])

    job = await engine.get(unheard.id)
    assert (renewed.released, renewed.lost) == (2, [])
    assert (await engine.get(known.id)).state is State.RUNNING
    assert job.state is State.READY
    assert numbers(job) == (1, 0, 0, 0, 0)


async def test_what_a_renewal_released_can_be_claimed_again(engine: Engine) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await worker.renew(holding=[])

    (again,) = await worker.claim()

    assert (again.id, again.delivery) == (claim.id, 2)


async def test_a_renewal_leaves_later_exchanges_alone(engine: Engine) -> None:
    """Their answers may still be on the way."""
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    (early,) = await worker.claim()
    (late,) = await worker.claim()

    renewed = await worker.renew(holding=[], number=1)

    assert renewed.released == 1
    assert (await engine.get(early.id)).state is State.READY
    assert (await engine.get(late.id)).state is State.RUNNING


async def test_a_renewal_without_a_list_compares_nothing(engine: Engine) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()

    renewed = await worker.session.renew(number=1)

    assert (renewed.released, renewed.lost) == (0, [])
    assert (await engine.get(claim.id)).state is State.RUNNING


async def test_a_renewal_releases_nothing_of_another_session(engine: Engine) -> None:
    await engine.submit([a_job()])
    holder, other = await a_worker(engine), await a_worker(engine)
    (claim,) = await holder.claim()

    renewed = await other.renew(holding=[], number=9)

    assert renewed.released == 0
    assert (await engine.get(claim.id)).state is State.RUNNING


async def test_a_renewal_names_what_the_worker_no_longer_holds(engine: Engine) -> None:
    await engine.submit([a_job() for _ in range(3)])
    worker = await a_worker(engine)
    other = await a_worker(engine)
    held, given_back = await worker.claim(2)
    (foreign,) = await other.claim()
    await worker.release(given_back)
    unknown = a_claim(handle=10_000)

    renewed = await worker.renew(holding=[held, given_back, foreign, unknown])

    expected = [reference(claim) for claim in (given_back, foreign, unknown)]
    assert sorted(renewed.lost) == sorted(expected)
    assert renewed.released == 0


async def test_a_renewal_carries_starts(engine: Engine, clock: ManualClock) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    clock.advance(SECOND)

    await worker.session.renew(started=[reference(claim)])
    await worker.session.renew(started=[reference(claim)])

    job = await engine.get(claim.id)
    assert job.started_at == clock.now()
    assert numbers(job) == (1, 1, 0, 0, 0)


async def test_a_renewal_tells_which_held_jobs_should_stop(engine: Engine) -> None:
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    wanted, unwanted = await worker.claim(2)
    await engine.change("cancel", [unwanted.id], reason="no longer needed")

    renewed = await worker.renew(holding=[wanted, unwanted])

    assert renewed.cancel == [reference(unwanted)]


async def test_a_renewal_tells_a_worker_to_drain(engine: Engine) -> None:
    asked, other = await a_worker(engine), await a_worker(engine)

    await engine.drain_session(asked.session.token)

    assert (await asked.session.renew()).is_quiet
    assert not (await other.session.renew()).is_quiet


async def test_closing_a_session_gives_everything_back_uncharged(engine: Engine) -> None:
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    started, buffered = await worker.claim(2)
    await worker.start(started)

    await worker.session.close()

    first, second = await engine.get(started.id), await engine.get(buffered.id)
    assert (first.state, second.state) == (State.READY, State.READY)
    assert numbers(first) == (1, 1, 0, 0, 0)
    assert numbers(second) == (1, 0, 0, 0, 0)
    assert (await engine.sessions()).sessions == []


async def test_a_closed_session_can_do_nothing(engine: Engine) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    await worker.session.close()

    with pytest.raises(LeaseLostError):
        await worker.claim()
    with pytest.raises(LeaseLostError):
        await worker.session.renew()


async def test_closing_a_session_twice_is_harmless(engine: Engine) -> None:
    worker = await a_worker(engine)
    await worker.session.close()

    await worker.session.close()

    assert (await engine.sessions()).sessions == []


async def test_closing_a_lapsed_session_leaves_its_jobs_to_be_reclaimed(
    engine: Engine, clock: ManualClock
) -> None:
    """Whether a crash has to be counted is the reclaimer's to judge."""
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await worker.start(claim)
    clock.advance(LEASE)

    await worker.session.close()
    await reclaim_lapsed(engine)

    assert numbers(await engine.get(claim.id)) == (1, 1, 0, 1, 0)


async def test_closing_a_reclaimed_session_touches_nothing(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job()])
    stale = await a_worker(engine)
    await stale.claim()
    clock.advance(LEASE)
    await reclaim_lapsed(engine)
    fresh = await a_worker(engine)
    (claim,) = await fresh.claim()

    await stale.session.close()

    job = await engine.get(claim.id)
    assert (job.state, job.delivery) == (State.RUNNING, 2)


async def test_a_session_knows_its_lease(engine: Engine) -> None:
    worker = await a_worker(engine, lease=7 * SECOND)

    assert worker.session.lease == 7 * SECOND
