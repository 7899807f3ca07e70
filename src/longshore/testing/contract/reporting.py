import pytest

from longshore.contract import Engine, JobFilter
from longshore.core import settle
from longshore.core.event import Name
from longshore.core.job import Claim, JobId, Progress, Report
from longshore.core.state import State
from longshore.errors import LeaseLostError
from longshore.records import flags
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import all_events, events_of, numbers, snapshot
from longshore.testing.factories import SECOND, a_failure, a_job
from longshore.testing.manual import LEASE, ManualWorker, a_worker, reclaim_lapsed


async def a_claim_that_reported(engine: Engine) -> tuple[ManualWorker, Claim]:
    """A worker, and the claim of a job that has told it how far it is."""
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await worker.report(claim, 0.4, "resizing")
    return worker, claim


def a_report(claim: Claim, fraction: float) -> Report:
    """What the handler of this claim says."""
    return Report(claim.handle, claim.delivery, fraction, "resizing")


async def fraction_of(engine: Engine, job_id: JobId) -> float | None:
    """How far a job is, for those who look."""
    progress = (await engine.get(job_id)).progress
    return None if progress is None else progress.fraction


async def told_of(engine: Engine, job_id: JobId) -> list[object]:
    """How far a job is, for those who listen."""
    return [
        one.details["fraction"]
        for one in await all_events(engine)
        if one.name is Name.PROGRESS and one.job_id == job_id
    ]


async def test_the_last_report_of_a_running_job_is_seen(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    silent, busy = await worker.claim(2)
    await worker.report(busy, 0.25, "loading")
    clock.advance(SECOND)

    await worker.report(busy, 1 / 3)

    assert (await engine.get(busy.id)).progress == Progress(1 / 3, None, clock.now())
    assert (await engine.get(silent.id)).progress is None
    assert await told_of(engine, busy.id) == [0.25, 1 / 3]


async def test_while_the_outbox_is_muted_reports_are_kept_and_not_told(engine: Engine) -> None:
    worker, claim = await a_claim_that_reported(engine)
    other = await a_worker(engine, name="worker-2")

    news = [
        await flags.mute(engine, True),
        await flags.mute(engine, True),
        await flags.is_muted(engine),
    ]
    await worker.report(claim, 0.6)
    kept = await fraction_of(engine, claim.id)
    await engine.submit([a_job()])
    (late,) = await other.claim()
    await other.report(late, 0.1)
    await other.succeed(late)
    news += [
        await flags.mute(engine, False),
        await flags.mute(engine, False),
        await flags.is_muted(engine),
    ]
    await worker.report(claim, 0.8)

    assert news == [True, False, True, True, False, False]
    assert kept == 0.6
    assert await told_of(engine, claim.id) == [0.4, 0.8]
    # Not a word is missing of what happened to it, but for how far it was.
    names = [Name.SUBMITTED, Name.STARTED, Name.SUCCEEDED]
    assert await events_of(engine, late.id) == names


async def test_an_event_tells_what_was_reported_and_in_which_delivery(engine: Engine) -> None:
    _, claim = await a_claim_that_reported(engine)

    (told,) = [one for one in await all_events(engine) if one.name is Name.PROGRESS]

    assert told.details == {"delivery": 1, "fraction": 0.4, "message": "resizing"}
    assert (told.job_id, told.queue, told.type) == (claim.id, claim.queue, claim.type)


async def test_what_reports_has_started(engine: Engine, clock: ManualClock) -> None:
    _, claim = await a_claim_that_reported(engine)

    job = await engine.get(claim.id)

    assert (job.started_at, numbers(job)) == (clock.now(), (1, 1, 0, 0, 0))
    assert await events_of(engine, job.id) == [Name.SUBMITTED, Name.STARTED, Name.PROGRESS]


async def test_of_many_reports_in_one_exchange_all_are_told_and_the_last_ones_kept(
    engine: Engine,
) -> None:
    jobs = [a_job(tenant=f"t{number % 3}") for number in range(300)]
    await engine.submit(jobs)
    worker = await a_worker(engine)
    claims = await worker.claim(300)

    await worker.exchange(
        progress=[a_report(claim, part) for part in (0.0, 0.5) for claim in claims]
    )

    told = [one for one in await all_events(engine) if one.name is Name.PROGRESS]
    assert {await fraction_of(engine, claim.id) for claim in claims} == {0.5}
    assert await told_of(engine, claims[7].id) == [0.0, 0.5]
    assert len(told) == 600
    assert {one.job_id: one.tenant for one in told} == {job.id: job.tenant for job in jobs}


async def test_a_report_beside_its_jobs_end_comes_before_it(engine: Engine) -> None:
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    good, bad = await worker.claim(2)
    now = await engine.now()

    await worker.exchange(
        progress=[a_report(good, 1.0), a_report(bad, 0.9)],
        settlements=[
            settle.succeeded(good, started_at=now, finished_at=now),
            settle.failed(bad, a_failure(), delay=SECOND, started_at=now, finished_at=now),
        ],
    )

    begun = [Name.SUBMITTED, Name.STARTED, Name.PROGRESS]
    assert await events_of(engine, good.id) == [*begun, Name.SUCCEEDED]
    assert await events_of(engine, bad.id) == [*begun, Name.FAILED, Name.RETRYING]
    assert await fraction_of(engine, good.id) == 1.0
    assert await fraction_of(engine, bad.id) == 0.9
    assert (await engine.get(bad.id)).attempt == 1


async def test_a_job_that_ended_shows_how_far_it_came(engine: Engine) -> None:
    worker, claim = await a_claim_that_reported(engine)

    await worker.kill(claim)

    job = await engine.get(claim.id)
    assert (job.state, await fraction_of(engine, job.id)) == (State.DEAD, 0.4)


async def test_the_next_attempt_begins_without_progress(
    engine: Engine, clock: ManualClock
) -> None:
    worker, claim = await a_claim_that_reported(engine)
    await worker.fail(claim)
    while_it_waits = await fraction_of(engine, claim.id)
    clock.advance(SECOND)
    await engine.promote(limit=1)

    (again,) = await worker.claim()

    assert while_it_waits == 0.4
    assert await fraction_of(engine, claim.id) is None
    await worker.report(again, 0.1)
    assert await fraction_of(engine, claim.id) == 0.1


async def test_a_replayed_job_begins_without_progress(engine: Engine) -> None:
    worker, claim = await a_claim_that_reported(engine)
    await worker.kill(claim)

    await engine.change("replay", [claim.id])
    await engine.change("cancel", [claim.id], reason="not after all")

    assert await fraction_of(engine, claim.id) is None


async def test_a_report_of_a_claim_that_is_not_held_changes_nothing(engine: Engine) -> None:
    """The job runs again elsewhere, and what its first holder says is of another delivery."""
    worker, claim = await a_claim_that_reported(engine)
    await worker.release(claim)
    other = await a_worker(engine)
    (again,) = await other.claim()
    await other.report(again, 0.2)
    before = await snapshot(engine, claim.id)

    await worker.exchange(progress=[a_report(claim, 0.9), a_report(again, 0.8)])
    await other.exchange(progress=[a_report(claim, 0.7)])

    assert await snapshot(engine, claim.id) == before


async def test_a_worker_that_lost_its_lease_reports_nothing(
    engine: Engine, clock: ManualClock
) -> None:
    worker, claim = await a_claim_that_reported(engine)
    clock.advance(LEASE)
    await reclaim_lapsed(engine)
    other = await a_worker(engine)
    (again,) = await other.claim()
    await other.report(again, 0.2)
    before = await snapshot(engine, claim.id)

    with pytest.raises(LeaseLostError):
        await worker.report(claim, 0.9)

    assert await snapshot(engine, claim.id) == before


async def test_an_exchange_sent_again_tells_of_no_progress_twice(engine: Engine) -> None:
    worker, claim = await a_claim_that_reported(engine)
    before = await snapshot(engine, claim.id)

    await worker.repeat()

    assert await snapshot(engine, claim.id) == before


async def test_a_listing_shows_progress(engine: Engine) -> None:
    _, claim = await a_claim_that_reported(engine)

    (job,) = (await engine.find(JobFilter(), limit=10)).jobs

    assert job == await engine.get(claim.id)
    assert job.progress is not None
