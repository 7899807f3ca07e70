import asyncio

import pytest

from longshore.contract import Engine, Retention
from longshore.core import event, settle
from longshore.core.event import Name
from longshore.core.job import Failure
from longshore.core.schedule import Firing, Shot
from longshore.records import pauses, schedules
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import all_events, events_of
from longshore.testing.factories import DAY, MINUTE, SECOND, a_job, a_schedule
from longshore.testing.manual import LEASE, a_worker, reclaim_lapsed, reference


async def test_every_submitted_job_is_told_once_in_order(
    engine: Engine, clock: ManualClock
) -> None:
    jobs = [a_job(), a_job(queue="mail", tenant="acme"), a_job(type="email.send")]

    await engine.submit([*jobs, jobs[0]])

    told = await all_events(engine)
    assert {(one.job_id, one.queue, one.type, one.tenant) for one in told} == {
        (job.id, job.queue, job.type, job.tenant) for job in jobs
    }
    assert [one.name for one in told] == [Name.SUBMITTED] * 3
    assert {one.at for one in told} == {clock.now()}


async def test_the_events_of_a_job_tell_its_life_in_order(
    engine: Engine, clock: ManualClock
) -> None:
    new = a_job(delay=SECOND, max_attempts=2)
    await engine.submit([new])
    worker = await a_worker(engine)

    async def claim_when_due() -> None:
        clock.advance(SECOND)
        await engine.promote(limit=10)
        (claim,) = await worker.claim()
        await worker.fail(claim)

    await claim_when_due()
    await claim_when_due()
    await engine.change("replay", [new.id])
    (claim,) = await worker.claim()
    await worker.start(claim)
    await worker.succeed(claim)

    assert await events_of(engine, new.id) == [
        Name.SUBMITTED,
        Name.READY,
        Name.STARTED,
        Name.FAILED,
        Name.RETRYING,
        Name.READY,
        Name.STARTED,
        Name.FAILED,
        Name.DEAD,
        Name.REPLAYED,
        Name.STARTED,
        Name.SUCCEEDED,
    ]


async def test_jobs_settled_together_each_tell_their_own_story(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job(), a_job(queue="mail"), a_job(), a_job(), a_job(), a_job()])
    worker = await a_worker(engine, queues=["default", "mail"])
    done, raised, slept, back, stopped, other = await worker.claim(6)
    await worker.start(raised)
    now = clock.now()

    await worker.settle(
        settle.succeeded(done, started_at=now, finished_at=now),
        settle.failed(
            raised, Failure("ValueError", "no"), delay=1, started_at=now, finished_at=now
        ),
        settle.snoozed(slept, MINUTE, started_at=now, finished_at=now),
        settle.released(back),
        settle.cancelled(stopped, "asked to", started_at=now, finished_at=now),
        settle.succeeded(other, started_at=now, finished_at=now),
    )

    expected = {
        done.id: [Name.STARTED, Name.SUCCEEDED],
        raised.id: [Name.STARTED, Name.FAILED, Name.RETRYING],
        slept.id: [Name.STARTED, Name.SNOOZED],
        back.id: [Name.RELEASED],
        stopped.id: [Name.STARTED, Name.CANCELLED],
        other.id: [Name.STARTED, Name.SUCCEEDED],
    }
    told = {job_id: (await events_of(engine, job_id))[1:] for job_id in expected}
    assert told == expected


async def test_every_event_of_a_job_carries_the_trace_that_the_job_was_submitted_with(
    engine: Engine, clock: ManualClock
) -> None:
    traces = [f"00-{c * 32}-{c * 16}-01" for c in "ab"]
    one, other = (a_job(trace=trace, delay=SECOND, max_attempts=2) for trace in traces)
    plain, odd = a_job(delay=SECOND), a_job(type="odd", trace=traces[0], delay=SECOND)
    await engine.submit([one, plain, other, odd])
    clock.advance(SECOND)
    await engine.promote(limit=10)
    worker = await a_worker(engine, types=["noop", "odd"])

    claims = {claim.id: claim for claim in await worker.claim(4)}
    await worker.start(*claims.values())
    await worker.report(claims[other.id], 0.5)
    await worker.fail(claims[one.id])
    await worker.succeed(claims[plain.id])
    await worker.succeed(claims[odd.id])
    clock.advance(LEASE + SECOND)
    await reclaim_lapsed(engine)
    await engine.promote(limit=10)
    second = await a_worker(engine, name="worker-2")
    for claim in await second.claim(4):
        await second.kill(claim)
    await engine.change("replay", [other.id])
    await engine.change("cancel", [other.id], reason="no use")
    await engine.change("purge", [other.id])
    clock.advance(60 * DAY)
    await engine.prune(Retention(outbox=90 * DAY), limit=1_000)

    expected = {one.id: traces[0], plain.id: None, other.id: traces[1], odd.id: traces[0]}
    told = await all_events(engine)
    names = {happened.name for happened in told}
    assert {(happened.job_id, happened.trace) for happened in told} == set(expected.items())
    assert names >= {
        *(Name.SUBMITTED, Name.READY, Name.STARTED, Name.PROGRESS, Name.FAILED),
        *(Name.RETRYING, Name.RECLAIMED, Name.DEAD, Name.REPLAYED, Name.CANCELLED),
        *(Name.SUCCEEDED, Name.PURGED),
    }


@pytest.mark.parametrize("reported", [True, False], ids=["start known", "start unknown"])
async def test_a_start_is_told_once(engine: Engine, reported: bool) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    if reported:
        await worker.session.renew(started=[reference(claim)])
        await worker.start(claim)

    await worker.succeed(claim)

    assert (await events_of(engine, claim.id)).count(Name.STARTED) == 1


async def test_a_trace_is_told_whoever_of_its_batch_is_forgotten(
    engine: Engine, clock: ManualClock
) -> None:
    trace = f"00-{'a' * 32}-{'b' * 16}-01"
    first, *others = [a_job(trace=trace, delay=SECOND) for _ in range(3)]
    await engine.submit([first, *others])
    await engine.change("cancel", [first.id], reason="changed my mind")
    await engine.change("purge", [first.id])
    clock.advance(SECOND)

    await engine.promote(limit=10)

    told = [one for one in await all_events(engine) if one.name is Name.READY]
    assert {one.job_id: one.trace for one in told} == {job.id: trace for job in others}


async def test_a_job_that_was_taken_from_a_dead_worker_says_so(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    wanted, unwanted = await worker.claim(2)
    await engine.change("cancel", [unwanted.id], reason="no longer needed")
    clock.advance(LEASE)

    await reclaim_lapsed(engine)

    assert await events_of(engine, wanted.id) == [Name.SUBMITTED, Name.RECLAIMED]
    assert await events_of(engine, unwanted.id) == [
        Name.SUBMITTED,
        Name.CANCEL_REQUESTED,
        Name.CANCELLED,
    ]


async def test_closing_and_reconciling_tell_of_releases(engine: Engine) -> None:
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    first, second = await worker.claim(2)
    await worker.renew(holding=[second])

    await worker.session.close()

    assert await events_of(engine, first.id) == [Name.SUBMITTED, Name.RELEASED]
    assert await events_of(engine, second.id) == [Name.SUBMITTED, Name.RELEASED]


async def test_orders_are_told(engine: Engine) -> None:
    new = a_job(delay=MINUTE)
    await engine.submit([new])
    await engine.change("retry", [new.id])
    await engine.change("cancel", [new.id], reason="changed my mind")
    await engine.change("replay", [new.id])
    await engine.change("cancel", [new.id], reason="changed it again")
    await engine.change("purge", [new.id])

    assert await events_of(engine, new.id) == [
        Name.SUBMITTED,
        Name.READY,
        Name.CANCELLED,
        Name.REPLAYED,
        Name.CANCELLED,
        Name.PURGED,
    ]


async def test_a_cancelled_request_after_a_retry_is_told_as_cancelled(engine: Engine) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await engine.change("cancel", [claim.id], reason="no longer needed")

    await worker.fail(claim)

    told = await events_of(engine, claim.id)
    assert told[:2] == [Name.SUBMITTED, Name.CANCEL_REQUESTED]
    assert told[-1] is Name.CANCELLED
    assert Name.RETRYING not in told


async def test_fired_and_skipped_due_times_are_told(engine: Engine, clock: ManualClock) -> None:
    schedule = a_schedule(next_due=clock.now(), tenant="acme")
    await schedules.put(engine, schedule)
    job = a_job(tenant="acme")
    now = clock.now()
    shots = (Shot(now - MINUTE, None), Shot(now, job))

    await engine.fire(Firing("nightly", "acme", now, shots, now + MINUTE))

    told = [one for one in await all_events(engine) if one.name.startswith("schedule.")]
    assert [one.name for one in told] == [Name.SCHEDULE_SKIPPED, Name.SCHEDULE_FIRED]
    assert [one.details["due"] for one in told] == [now - MINUTE, now]
    assert {one.details["schedule"] for one in told} == {"nightly"}
    assert {one.tenant for one in told} == {"acme"}
    assert told[1].job_id == job.id
    assert await events_of(engine, job.id) == [Name.SUBMITTED, Name.SCHEDULE_FIRED]


async def test_a_failure_is_told_with_its_error(engine: Engine) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()

    await worker.fail(claim, Failure("ValueError", "no such user"))

    (failed,) = [one for one in await all_events(engine) if one.name is Name.FAILED]
    assert failed.details["error"] == {"kind": "ValueError", "message": "no such user"}


async def test_positions_grow_and_events_come_in_order(
    engine: Engine, clock: ManualClock
) -> None:
    for _ in range(5):
        await engine.submit([a_job(), a_job()])
        clock.advance(SECOND)

    batches = await engine.events(after=0, limit=100)

    positions = [batch.position for batch in batches]
    assert positions == sorted(set(positions))
    assert [batch.at for batch in batches] == sorted(batch.at for batch in batches)
    ids = [one.id for batch in batches for one in event.expand(batch)]
    assert len(ids) == len(set(ids)) == 10


async def test_a_reader_with_a_cursor_sees_every_event_once(engine: Engine) -> None:
    jobs = [a_job() for _ in range(10)]
    for job in jobs:
        await engine.submit([job])
    seen: list[object] = []
    after = 0
    while batches := await engine.events(after=after, limit=3):
        assert len(batches) <= 3
        seen += [one.job_id for batch in batches for one in event.expand(batch)]
        after = batches[-1].position

    assert seen == [job.id for job in jobs]


async def test_reading_events_again_returns_the_same(engine: Engine) -> None:
    await engine.submit([a_job(), a_job()])

    assert await all_events(engine) == await all_events(engine)


async def test_what_changes_nothing_is_not_told(engine: Engine, clock: ManualClock) -> None:
    new = a_job()
    await engine.submit([new])
    worker = await a_worker(engine)
    before = await all_events(engine)

    await engine.submit([new])
    await worker.claim()
    await worker.session.renew()
    await engine.promote(limit=10)
    await pauses.pause(engine, queue="default")
    await reclaim_lapsed(engine)

    assert await all_events(engine) == before


async def test_calls_that_travel_together_tell_a_start_once_and_before_the_end(
    engine: Engine,
) -> None:
    """A worker's renewal and its exchange may arrive at once, in either order."""
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    first, second = await worker.claim(2)

    await asyncio.gather(
        worker.session.renew(started=[reference(first)]), worker.succeed(first)
    )
    await asyncio.gather(
        worker.succeed(second), worker.session.renew(started=[reference(second)])
    )

    for claim in (first, second):
        assert await events_of(engine, claim.id) == [
            Name.SUBMITTED,
            Name.STARTED,
            Name.SUCCEEDED,
        ]
        assert (await engine.get(claim.id)).attempt == 1
