import pytest

from longshore.contract import Engine, JobFilter, Retention
from longshore.core import settle
from longshore.core.event import Name, Span
from longshore.core.job import Verdict
from longshore.core.schedule import Firing, Shot
from longshore.core.state import TERMINAL, State
from longshore.errors import JobNotFoundError
from longshore.records import schedules
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import a_job_that_is, all_events, events_of
from longshore.testing.factories import DAY, HOUR, SECOND, a_job, a_schedule
from longshore.testing.manual import a_worker

KEEP = Retention(
    succeeded=HOUR, cancelled=HOUR, dead=HOUR, idempotency=30 * DAY, outbox=30 * DAY
)
EVERYTHING = 1_000


@pytest.mark.parametrize("state", sorted(TERMINAL))
async def test_a_finished_job_is_kept_for_its_retention_and_no_longer(
    engine: Engine, clock: ManualClock, state: State
) -> None:
    job = await a_job_that_is(state, engine)
    clock.advance(HOUR - 1)
    early = await engine.prune(KEEP, limit=EVERYTHING)
    kept = await engine.get(job.id)
    clock.advance(2)

    await engine.prune(KEEP, limit=EVERYTHING)

    assert early == 0
    assert kept == job
    with pytest.raises(JobNotFoundError):
        await engine.get(job.id)
    with pytest.raises(JobNotFoundError):
        await engine.attempts(job.id)


async def test_a_job_is_kept_no_longer_because_one_of_its_batch_still_runs(
    engine: Engine, clock: ManualClock
) -> None:
    jobs = [a_job() for _ in range(4)]
    await engine.submit(jobs)
    worker = await a_worker(engine, lease=DAY)
    claims = {claim.id: claim for claim in await worker.claim(4)}
    await worker.succeed(claims[jobs[1].id], b"1")
    clock.advance(HOUR)
    await worker.succeed(claims[jobs[2].id], b"2")
    clock.advance(1)

    pruned = await engine.prune(KEEP, limit=EVERYTHING)

    with pytest.raises(JobNotFoundError):
        await engine.get(jobs[1].id)
    assert pruned == 1
    (counts,) = await engine.counts()
    assert (counts.running, counts.succeeded, counts.pruned) == (2, 1, 1)
    assert (await engine.get(jobs[2].id)).result == b"2"
    await worker.succeed(claims[jobs[3].id])
    await worker.succeed(claims[jobs[0].id])
    page = await engine.find(JobFilter(state=State.SUCCEEDED), limit=10)
    assert {job.id for job in page.jobs} == {jobs[0].id, jobs[2].id, jobs[3].id}


async def test_of_jobs_that_were_settled_together_each_is_kept_from_its_own_end_on(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    early, late = await worker.claim(2)
    began = clock.now()
    clock.advance(20 * SECOND)
    await worker.settle(
        settle.succeeded(early, started_at=began, finished_at=began),
        settle.succeeded(late, started_at=began, finished_at=clock.now()),
    )
    clock.advance(HOUR - 10 * SECOND)

    await engine.prune(KEEP, limit=EVERYTHING)

    found = await engine.find(JobFilter(), limit=10)
    assert [job.id for job in found.jobs] == [late.id]


async def test_every_state_has_a_retention_of_its_own(
    engine: Engine, clock: ManualClock
) -> None:
    jobs = {state: await a_job_that_is(state, engine) for state in TERMINAL}
    retention = Retention(succeeded=HOUR, cancelled=2 * HOUR, dead=3 * HOUR)
    left: list[set[State]] = []
    for _ in range(3):
        clock.advance(HOUR + 1)
        await engine.prune(retention, limit=EVERYTHING)
        page = await engine.find(JobFilter(), limit=10)
        left.append({job.state for job in page.jobs})

    assert set(jobs) == TERMINAL
    assert left == [{State.CANCELLED, State.DEAD}, {State.DEAD}, set()]


@pytest.mark.parametrize("state", sorted(set(State) - TERMINAL))
async def test_a_live_job_is_never_pruned(
    engine: Engine, clock: ManualClock, state: State
) -> None:
    job = await a_job_that_is(state, engine)
    clock.advance(365 * DAY)

    await engine.prune(KEEP, limit=EVERYTHING)

    assert (await engine.get(job.id)).state is state


async def test_a_job_due_after_three_retentions_runs_then_with_its_payload(
    engine: Engine, clock: ManualClock
) -> None:
    due = clock.now() + 3 * HOUR + 3
    jobs = [a_job(payload=b'{"n": %d}' % number) for number in range(4)]
    late = a_job(payload=b'{"n": 9}', run_at=due, tags=("late",))
    await engine.submit([*jobs[:2], late, *jobs[2:]])
    worker = await a_worker(engine, lease=DAY)
    for claim in await worker.claim(10):
        await worker.succeed(claim)
    for _ in range(3):
        clock.advance(HOUR + 1)
        await engine.prune(KEEP, limit=EVERYTHING)
    kept = await engine.find(JobFilter(), limit=10)

    await engine.promote(limit=10)
    (claim,) = await worker.claim(10)

    assert [job.id for job in kept.jobs] == [late.id]
    assert (claim.id, claim.payload, claim.tags) == (late.id, b'{"n": 9}', ("late",))
    assert (await worker.succeed(claim)).stale == []


async def test_only_what_is_old_enough_is_pruned(engine: Engine, clock: ManualClock) -> None:
    old = await a_job_that_is(State.SUCCEEDED, engine)
    clock.advance(2 * HOUR)
    young = await a_job_that_is(State.SUCCEEDED, engine)

    await engine.prune(KEEP, limit=EVERYTHING)

    page = await engine.find(JobFilter(), limit=10)
    assert [job.id for job in page.jobs] == [young.id]
    assert old.id != young.id


async def test_what_ended_in_all_can_be_told_after_pruning(
    engine: Engine, clock: ManualClock
) -> None:
    for state in (State.SUCCEEDED, State.DEAD, State.CANCELLED, State.SUCCEEDED):
        await a_job_that_is(state, engine)
    clock.advance(2 * HOUR)
    young = await a_job_that_is(State.SUCCEEDED, engine)

    await engine.prune(KEEP, limit=EVERYTHING)
    (counted,) = await engine.counts()
    (estimated,) = await engine.counts(may_estimate=True)
    (own,) = await engine.counts(tenant=young.tenant)
    clock.advance(2 * HOUR)
    await engine.prune(KEEP, limit=EVERYTHING)

    assert (counted.succeeded, counted.dead, counted.cancelled) == (1, 0, 0)
    assert (counted.pruned, estimated.pruned, own.pruned) == (4, 4, 0)
    assert await engine.counts() == []


async def test_a_pruned_dead_job_leaves_an_event_with_all_that_an_audit_needs(
    engine: Engine, clock: ManualClock
) -> None:
    new = a_job(payload=b'{"user": 7}', queue="mail", tenant="acme")
    await engine.submit([new])
    worker = await a_worker(engine, queues=["mail"])
    (claim,) = await worker.claim()
    await worker.kill(claim, "the account is closed")
    clock.advance(2 * HOUR)

    await engine.prune(KEEP, limit=EVERYTHING)

    purged = [event for event in await all_events(engine) if event.name is Name.PURGED]
    assert [(event.job_id, event.queue, event.tenant) for event in purged] == [
        (new.id, "mail", "acme")
    ]
    assert purged[0].details["payload"] == '{"user": 7}'
    assert purged[0].details["reason"] == "the account is closed"
    assert purged[0].details["who"]


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.CANCELLED])
async def test_other_jobs_are_pruned_without_a_word(
    engine: Engine, clock: ManualClock, state: State
) -> None:
    job = await a_job_that_is(state, engine)
    clock.advance(2 * HOUR)

    await engine.prune(KEEP, limit=EVERYTHING)

    assert Name.PURGED not in await events_of(engine, job.id)


async def test_pruning_keeps_to_its_limit_and_ends(engine: Engine, clock: ManualClock) -> None:
    for _ in range(5):
        await a_job_that_is(State.CANCELLED, engine)
    clock.advance(2 * HOUR)

    pruned = [await engine.prune(KEEP, limit=2) for _ in range(4)]

    assert pruned == [2, 2, 1, 0]


async def test_pruning_does_not_let_a_due_time_fire_again(
    engine: Engine, clock: ManualClock
) -> None:
    schedule = a_schedule(next_due=clock.now())
    due = clock.now()
    await schedules.put(engine, schedule)
    await engine.fire(Firing("nightly", "default", due, (Shot(due, a_job()),), due + HOUR))
    clock.advance(1)
    await engine.prune(Retention(succeeded=0, cancelled=0, dead=0), limit=EVERYTHING)
    await schedules.put(engine, schedule)

    again = await engine.fire(
        Firing("nightly", "default", due, (Shot(due, a_job()),), due + HOUR)
    )

    assert again == []


async def test_a_kept_job_remembers_its_worker_whatever_else_was_pruned(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine, name="host-7:1")
    (claim,) = await worker.claim()
    await worker.succeed(claim)
    await worker.session.close()
    clock.advance(1)

    await engine.prune(Retention(succeeded=DAY, cancelled=0, dead=0), limit=EVERYTHING)

    (attempt,) = await engine.attempts(claim.id)
    assert (attempt.outcome, attempt.worker) == ("succeeded", "host-7:1")


async def test_without_a_consumer_old_events_do_not_pile_up(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job()])
    clock.advance(2 * HOUR)

    await engine.prune(Retention(outbox=HOUR), limit=EVERYTHING)

    assert await engine.events(after=0, limit=10) == []


async def test_positions_go_on_growing_after_everything_was_pruned(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job()])
    (before,) = await engine.events(after=0, limit=10)
    clock.advance(2 * HOUR)
    await engine.prune(Retention(outbox=HOUR), limit=EVERYTHING)

    await engine.submit([a_job()])

    (after,) = await engine.events(after=before.position, limit=10)
    assert after.position > before.position


async def test_purge_deletes_finished_jobs_and_tells_of_them(engine: Engine) -> None:
    dead = await a_job_that_is(State.DEAD, engine)
    done = await a_job_that_is(State.SUCCEEDED, engine)
    other = await a_job_that_is(State.DEAD, engine)

    purged_jobs = await engine.change("purge", [dead.id, done.id])

    page = await engine.find(JobFilter(), limit=10)
    purged = [event for event in await all_events(engine) if event.name is Name.PURGED]
    assert [job.id for job in purged_jobs] == [dead.id, done.id]
    assert [job.id for job in page.jobs] == [other.id]
    assert {event.job_id for event in purged} == {dead.id, done.id}
    assert len({event.details["who"] for event in purged}) == 1
    assert {event.details["payload"] for event in purged} == {"{}"}


async def test_what_was_purged_while_its_batch_ran_does_not_come_back_when_that_ends(
    engine: Engine,
) -> None:
    for _ in range(3):
        await engine.submit([a_job() for _ in range(3)])
    worker, other = await a_worker(engine), await a_worker(engine)
    held = {worker: await worker.claim(6), other: await other.claim(3)}
    batches = [held[worker][:3], held[worker][3:], held[other]]
    for one, (first, second, _) in zip([worker, worker, other], batches, strict=True):
        await one.succeed(first)
        await one.succeed(second)
    purged = [batches[0][0].id, batches[1][1].id, batches[2][0].id]
    await engine.change("purge", purged)

    for one, (*_, last) in zip([worker, worker, other], batches, strict=True):
        await one.succeed(last)

    kept = {claim.id for batch in batches for claim in batch} - set(purged)
    found = await engine.find(JobFilter(), limit=20)
    assert {job.id for job in found.jobs} == kept
    assert [one.succeeded for one in await engine.counts()] == [6]


async def test_one_live_job_keeps_all_from_being_purged(engine: Engine) -> None:
    dead = await a_job_that_is(State.DEAD, engine)
    theirs = a_job(tenant="other")
    await engine.submit([theirs])
    await engine.change("cancel", [theirs.id], reason="changed my mind")

    with pytest.raises(JobNotFoundError):
        await engine.change("purge", [dead.id, theirs.id], tenant="default")

    assert (await engine.get(dead.id)).state is State.DEAD


async def test_an_id_can_be_used_again_once_its_job_is_purged(engine: Engine) -> None:
    job = await a_job_that_is(State.SUCCEEDED, engine)
    await engine.change("purge", [job.id])

    (answer,) = await engine.submit([a_job(id=job.id)])

    fresh = await engine.get(job.id)
    assert answer.verdict is Verdict.ACCEPTED
    assert (fresh.state, fresh.delivery, fresh.result) == (State.READY, 0, None)
    assert await engine.attempts(job.id) == []


async def test_the_outbox_tells_which_positions_it_holds(
    engine: Engine, clock: ManualClock
) -> None:
    at_first = await engine.span()
    await engine.submit([a_job()])
    await engine.submit([a_job()])
    filled = await engine.span()
    first, second = await engine.events(after=0, limit=10)
    clock.advance(2 * HOUR)
    await engine.submit([a_job()])

    await engine.prune(Retention(outbox=HOUR), limit=EVERYTHING)

    (third,) = await engine.events(after=0, limit=10)
    partly = await engine.span()
    clock.advance(2 * HOUR)
    await engine.prune(Retention(outbox=HOUR), limit=EVERYTHING)
    emptied = await engine.span()
    assert at_first == Span(1, 0)
    assert filled == Span(first.position, second.position)
    assert partly == Span(third.position, third.position)
    assert emptied == Span(third.position + 1, third.position)
