"""Parts of a batch go their own ways, and each leaves the others as they are."""

from collections.abc import Sequence

import pytest

from longshore.contract import Engine, Retention
from longshore.core import settle
from longshore.core.job import Claim, NewJob, Settlement, Verdict
from longshore.core.state import State
from longshore.errors import JobNotFoundError
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.requirements import requires
from longshore.testing.factories import DAY, HOUR, MINUTE, SECOND, a_failure, a_job
from longshore.testing.manual import ManualWorker, a_worker

_KEEP = Retention(succeeded=HOUR, cancelled=HOUR, dead=HOUR, outbox=30 * DAY)


def _succeeded(claim: Claim, at: int) -> Settlement:
    return settle.succeeded(claim, started_at=at - 1, finished_at=at)


async def _batch(engine: Engine, size: int, **options: object) -> list[NewJob]:
    jobs = [a_job(payload=b'{"n": %d}' % place, **options) for place in range(size)]
    await engine.submit(jobs)
    return jobs


async def _claimed(worker: ManualWorker, jobs: Sequence[NewJob]) -> list[Claim]:
    """These jobs, which come first, in the order of their batch."""
    claims = {claim.id: claim for claim in await worker.claim(len(jobs))}
    return [claims[job.id] for job in jobs]


@pytest.mark.parametrize("are_all", [True, False], ids=["whole", "every other"])
async def test_of_those_that_are_due_together_the_first_are_promoted(
    engine: Engine, clock: ManualClock, are_all: bool
) -> None:
    jobs = await _batch(engine, 8)
    worker = await a_worker(engine)
    claims = await _claimed(worker, jobs)
    failing = claims if are_all else claims[1::2]
    await worker.settle(
        *(
            settle.failed(one, a_failure(), delay=SECOND, started_at=1, finished_at=1)
            for one in failing
        )
    )
    clock.advance(SECOND)

    await engine.promote(limit=3)

    assert [(await engine.get(one.id)).state for one in failing] == [
        State.READY if place < 3 else State.SCHEDULED for place in range(len(failing))
    ]
    assert [one.id for one in await worker.claim(8)] == [one.id for one in failing[:3]]


async def test_parts_of_a_batch_that_are_due_at_once_are_promoted_in_its_order(
    engine: Engine, clock: ManualClock
) -> None:
    jobs = await _batch(engine, 4)
    worker = await a_worker(engine)
    claims = await _claimed(worker, jobs)
    for some in (claims[2:], claims[:2]):
        await worker.settle(
            *(
                settle.failed(one, a_failure(), delay=SECOND, started_at=1, finished_at=1)
                for one in some
            )
        )
    clock.advance(SECOND)

    await engine.promote(limit=2)

    states = [(await engine.get(job.id)).state for job in jobs]
    assert states == [State.READY] * 2 + [State.SCHEDULED] * 2


async def test_purging_one_of_several_that_ended_together_leaves_the_others_as_they_were(
    engine: Engine, clock: ManualClock
) -> None:
    jobs = await _batch(engine, 6)
    worker = await a_worker(engine)
    claims = await _claimed(worker, jobs)
    clock.advance(SECOND)
    now = clock.now()
    ended, back = claims[::2], claims[1::2]
    ends = [_succeeded(one, now + 9 * place) for place, one in enumerate(ended)]
    await worker.settle(*ends, *[settle.released(one) for one in back])
    others = [ended[0].id, ended[2].id, *[one.id for one in back]]
    before = [await engine.get(one) for one in others]

    await engine.change("purge", [ended[1].id])

    assert [await engine.get(one) for one in others] == before
    assert [one.id for one in await worker.claim(9)] == [one.id for one in back]


async def test_of_a_batch_that_is_partly_past_its_retention_the_rest_is_kept_as_it_was(
    engine: Engine, clock: ManualClock
) -> None:
    jobs, others = await _batch(engine, 4), await _batch(engine, 3)
    worker = await a_worker(engine, lease=DAY)
    claims, more = await _claimed(worker, jobs), await _claimed(worker, others)
    for claim in claims:
        await worker.start(claim)
        clock.advance(MINUTE)
        await worker.succeed(claim)
    await worker.settle(*[_succeeded(one, clock.now()) for one in more])
    kept = [*jobs[2:], *others]
    before = [await engine.get(job.id) for job in kept]
    clock.advance(HOUR - 2 * MINUTE)

    pruned = await engine.prune(_KEEP, limit=100)

    assert pruned == 2
    assert [await engine.get(job.id) for job in kept] == before


@requires("ordering_keys")
@pytest.mark.parametrize("home", ["ready", "parked", "scheduled", "claimed"])
async def test_whoever_of_a_batch_has_not_ended_is_there_when_the_others_were_pruned(
    engine: Engine, clock: ManualClock, home: str
) -> None:
    await engine.submit([a_job(ordering_key="k"), a_job(queue="another")])
    first, other = await _batch(engine, 2, ordering_key="k" if home == "parked" else None)
    worker, another = await a_worker(engine, lease=DAY), await a_worker(engine, lease=DAY)
    claims = {claim.id: claim for claim in await worker.claim(2)}
    if home == "parked":
        await engine.change("cancel", [first.id], reason="no longer needed")
    else:
        await worker.succeed(claims[first.id])
    if home == "scheduled":
        (claim,) = await another.claim()
        await another.snooze(claim, DAY)
    elif home == "claimed":
        assert len(await another.claim()) == 1
    clock.advance(2 * HOUR)

    pruned = await engine.prune(_KEEP, limit=100)

    found = await engine.get(other.id)
    assert (pruned, found.payload) == (1, other.payload)


@pytest.mark.parametrize("purged", ["before", "behind", "between"])
async def test_what_was_purged_stays_away_when_another_part_of_its_batch_ends(
    engine: Engine, purged: str
) -> None:
    jobs = await _batch(engine, 4)
    worker = await a_worker(engine)
    if purged == "between":
        claims = await _claimed(worker, jobs)
        await worker.settle(*[settle.released(one) for one in claims[::2]])
        await worker.settle(*[settle.released(one) for one in claims[1::2]])
        one, other = [0, 2], [1, 3]
    else:
        one, other = ([2, 3], [0, 1]) if purged == "before" else ([0, 1], [2, 3])
    held = [*await worker.claim(2), *await worker.claim(2)]
    claims = sorted(held, key=lambda claim: claim.handle)
    gone, last = (claims[place] for place in other)
    await worker.succeed(gone)
    await engine.change("purge", [gone.id])

    await worker.settle(*[_succeeded(claims[place], 9) for place in one])
    await worker.succeed(last)

    with pytest.raises(JobNotFoundError):
        await engine.get(gone.id)
    (counts,) = await engine.counts()
    assert (counts.succeeded, counts.running, counts.ready) == (3, 0, 0)


async def test_purging_one_of_a_batch_erases_nothing_of_other_batches(engine: Engine) -> None:
    jobs, others = await _batch(engine, 2), await _batch(engine, 2, unique_key=None)
    await engine.change("cancel", [jobs[0].id], reason="no longer needed")

    await engine.change("purge", [jobs[0].id])

    left = [jobs[1], *others]
    claims = await (await a_worker(engine)).claim(9)
    assert [(one.id, one.payload) for one in claims] == [(job.id, job.payload) for job in left]


async def test_of_a_batch_that_still_runs_no_more_are_pruned_than_the_limit_lets(
    engine: Engine, clock: ManualClock
) -> None:
    jobs = await _batch(engine, 5)
    worker = await a_worker(engine, lease=DAY)
    claims = await _claimed(worker, jobs)
    for claim in claims[:4]:
        await worker.succeed(claim)
    clock.advance(2 * HOUR)

    pruned = [await engine.prune(_KEEP, limit=3) for _ in range(3)]

    assert pruned == [3, 1, 0]
    assert (await engine.get(jobs[4].id)).state is State.RUNNING


async def _keeps_out(engine: Engine, job: NewJob) -> bool:
    (answer,) = await engine.submit([a_job(unique_key=job.unique_key)])
    return answer.verdict is Verdict.UNIQUE


async def _unique(engine: Engine, size: int) -> list[NewJob]:
    jobs = [a_job(unique_key=f"key-{place}") for place in range(size)]
    await engine.submit(jobs)
    return jobs


async def test_a_unique_job_between_those_of_a_batch_that_ended_keeps_others_out(
    engine: Engine,
) -> None:
    jobs = await _unique(engine, 3)
    worker, other = await a_worker(engine), await a_worker(engine)
    first, second, third = await _claimed(worker, jobs)
    await worker.settle(_succeeded(first, 9), settle.released(second), _succeeded(third, 9))
    await _claimed(other, [jobs[1]])

    kept_out = [await _keeps_out(engine, job) for job in jobs]

    assert kept_out == [False, True, False]


async def test_a_unique_job_that_ended_between_those_that_another_holds_keeps_nobody_out(
    engine: Engine,
) -> None:
    jobs = await _unique(engine, 4)
    workers = [await a_worker(engine) for _ in range(3)]
    claims = await _claimed(workers[0], jobs)
    await workers[0].settle(*[settle.released(one) for one in claims[1::2]])
    await workers[0].settle(*[settle.released(one) for one in claims[::2]])
    held = {one.id: (worker, one) for worker in workers[1:] for one in await worker.claim(2)}
    worker, claim = held[jobs[1].id]
    await worker.succeed(claim)
    between, behind = held[jobs[2].id]
    await between.succeed(behind)

    kept_out = [await _keeps_out(engine, job) for job in jobs]

    assert kept_out == [True, False, False, True]


async def test_a_unique_job_that_ended_in_its_second_delivery_keeps_nobody_out(
    engine: Engine,
) -> None:
    jobs = await _unique(engine, 3)
    worker, other = await a_worker(engine), await a_worker(engine)
    first, second, _ = await _claimed(worker, jobs)
    await worker.settle(settle.released(first), settle.released(second))
    again, _ = await _claimed(other, jobs[:2])
    await other.succeed(again)

    kept_out = [await _keeps_out(engine, job) for job in jobs]

    assert kept_out == [False, True, True]


async def test_pruned_jobs_are_counted_while_the_rest_of_a_batch_of_the_queue_still_runs(
    engine: Engine, clock: ManualClock
) -> None:
    old, young = await _batch(engine, 1), await _batch(engine, 2)
    worker = await a_worker(engine, lease=DAY)
    (first,) = await _claimed(worker, old)
    await worker.succeed(first)
    clock.advance(2 * HOUR)
    second, _ = await _claimed(worker, young)
    await worker.succeed(second)

    pruned = [await engine.prune(_KEEP, limit=100) for _ in range(2)]

    (counts,) = await engine.counts()
    assert (pruned, counts.pruned, counts.succeeded) == ([1, 0], 1, 1)
