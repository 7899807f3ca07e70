import asyncio

from longshore.contract import Engine, Promoted
from longshore.core.state import State
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import numbers, snapshot
from longshore.testing.factories import HOUR, MINUTE, SECOND, a_job
from longshore.testing.manual import a_worker


async def test_a_due_job_becomes_ready_and_keeps_its_due_time(
    engine: Engine, clock: ManualClock
) -> None:
    new = a_job(delay=MINUTE)
    await engine.submit([new])
    due = clock.now() + MINUTE
    clock.advance(HOUR)

    promoted = await engine.promote(limit=10)

    job = await engine.get(new.id)
    assert promoted == Promoted(1, None)
    assert (job.state, job.run_at) == (State.READY, due)
    assert numbers(job) == (0, 0, 0, 0, 0)


async def test_a_job_is_due_at_its_due_time_and_not_before(
    engine: Engine, clock: ManualClock
) -> None:
    new = a_job(delay=MINUTE)
    await engine.submit([new])
    clock.advance(MINUTE - 1)
    early = await engine.promote(limit=10)
    clock.advance(1)

    late = await engine.promote(limit=10)

    assert (early, late) == (Promoted(0, 1), Promoted(1, None))


async def test_promote_says_when_the_next_job_is_due(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job(delay=3 * MINUTE), a_job(delay=MINUTE), a_job()])
    clock.advance(MINUTE)

    assert await engine.promote(limit=10) == Promoted(1, 2 * MINUTE)


async def test_promote_with_nothing_scheduled_has_nothing_to_wait_for(engine: Engine) -> None:
    await engine.submit([a_job()])

    assert await engine.promote(limit=10) == Promoted(0, None)


async def test_the_earliest_due_are_promoted_first(engine: Engine, clock: ManualClock) -> None:
    jobs = [a_job(delay=delay * SECOND) for delay in (3, 1, 2)]
    await engine.submit(jobs)
    clock.advance(MINUTE)

    promoted = await engine.promote(limit=2)

    assert promoted == Promoted(2, 0)
    assert [(await engine.get(job.id)).state for job in jobs] == [
        State.SCHEDULED,
        State.READY,
        State.READY,
    ]


async def test_two_promoters_at_once_promote_each_job_once(
    engine: Engine, clock: ManualClock
) -> None:
    jobs = [a_job(delay=SECOND) for _ in range(30)]
    await engine.submit(jobs)
    clock.advance(MINUTE)

    promoted = await asyncio.gather(*(engine.promote(limit=20) for _ in range(3)))

    assert sum(one.count for one in promoted) == 30
    assert (await engine.counts())[0].ready == 30


async def test_promoting_again_changes_nothing(engine: Engine, clock: ManualClock) -> None:
    new = a_job(delay=SECOND)
    await engine.submit([new])
    clock.advance(MINUTE)
    await engine.promote(limit=10)
    before = await snapshot(engine, new.id)

    await engine.promote(limit=10)

    assert await snapshot(engine, new.id) == before


async def test_a_promoted_job_takes_the_place_of_its_priority(
    engine: Engine, clock: ManualClock
) -> None:
    late, urgent, usual = (
        a_job(delay=MINUTE, priority=9),
        a_job(delay=MINUTE, priority=1),
        a_job(),
    )
    await engine.submit([late, urgent])
    clock.advance(HOUR)
    await engine.submit([usual])

    await engine.promote(limit=10)

    worker = await a_worker(engine)
    claims = await worker.claim(3)
    assert [claim.id for claim in claims] == [urgent.id, usual.id, late.id]
    assert [claim.priority for claim in claims] == [1, 5, 9]


async def test_a_retry_keeps_the_place_of_its_priority(
    engine: Engine, clock: ManualClock
) -> None:
    late, urgent, usual = a_job(priority=9), a_job(priority=1), a_job()
    await engine.submit([late, urgent])
    worker = await a_worker(engine, lease=HOUR)
    for claim in await worker.claim(2):
        await worker.fail(claim)
    clock.advance(MINUTE)
    await engine.submit([usual])

    await engine.promote(limit=10)

    assert [claim.id for claim in await worker.claim(3)] == [urgent.id, usual.id, late.id]


async def test_of_jobs_due_at_once_the_first_submitted_are_promoted_first(
    engine: Engine, clock: ManualClock
) -> None:
    jobs = [a_job(delay=SECOND) for _ in range(4)]
    later = [a_job(delay=HOUR), a_job(delay=HOUR)]
    for batch in (later, jobs[:2], jobs[2:]):
        await engine.submit(batch)
    clock.advance(MINUTE)

    await engine.promote(limit=3)

    assert [(await engine.get(job.id)).state for job in [*jobs, *later]] == [
        *([State.READY] * 3),
        *([State.SCHEDULED] * 3),
    ]
