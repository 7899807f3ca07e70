import pytest

from longshore.contract import Engine
from longshore.core.state import JobChange, State
from longshore.errors import JobNotFoundError
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import a_job_that_is, numbers, snapshot
from longshore.testing.factories import HOUR, SECOND, a_job
from longshore.testing.manual import LEASE, a_worker, reclaim_lapsed


async def test_replay_gives_a_dead_job_a_fresh_start(
    engine: Engine, clock: ManualClock
) -> None:
    new = a_job()
    await engine.submit([new])
    crashed = await a_worker(engine)
    (claim,) = await crashed.claim()
    await crashed.start(claim)
    clock.advance(LEASE)
    await reclaim_lapsed(engine)
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await worker.kill(claim)
    clock.advance(HOUR)

    (job,) = await engine.change("replay", [new.id])

    assert (job.state, job.run_at) == (State.READY, clock.now())
    assert numbers(job) == (2, 2, 0, 0, 0)
    assert (job.reason, job.finished_at, job.started_at) == (None, None, None)
    assert job == await engine.get(new.id)


async def test_a_replayed_job_has_all_its_attempts_again(
    engine: Engine, clock: ManualClock
) -> None:
    new = a_job(max_attempts=2)
    await engine.submit([new])
    worker = await a_worker(engine, lease=HOUR)
    for _ in range(2):
        (claim,) = await worker.claim()
        await worker.fail(claim)
        clock.advance(SECOND)
        await engine.promote(limit=1)
    await engine.change("replay", [new.id])

    (claim,) = await worker.claim()
    await worker.fail(claim)

    job = await engine.get(new.id)
    assert (job.state, job.failures) == (State.SCHEDULED, 1)
    assert (claim.delivery, claim.attempt, claim.failures) == (3, 2, 0)


async def test_a_cancelled_job_can_be_replayed_and_runs(engine: Engine) -> None:
    job = await a_job_that_is(State.CANCELLED, engine)
    await engine.change("replay", [job.id])
    worker = await a_worker(engine, queues=[job.queue])

    (claim,) = await worker.claim()

    assert (claim.id, claim.delivery) == (job.id, 1)


async def test_a_job_cancelled_while_it_ran_runs_undisturbed_after_a_replay(
    engine: Engine,
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await engine.change("cancel", [claim.id], reason="no longer needed")
    await worker.stop(claim)
    await engine.change("replay", [claim.id])

    answer = await worker.exchange(want=1)

    assert [again.id for again in answer.claims] == [claim.id]
    assert answer.cancel == []


async def test_retry_now_makes_a_scheduled_job_ready_at_once(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await worker.fail(claim)
    clock.advance(1)

    (job,) = await engine.change("retry", [claim.id])

    assert (job.state, job.run_at) == (State.READY, clock.now())
    assert numbers(job) == (1, 1, 1, 0, 0)
    assert len(await worker.claim()) == 1


@pytest.mark.parametrize("change", ["replay", "retry"])
async def test_one_job_of_another_tenant_keeps_all_from_moving(
    engine: Engine, change: JobChange
) -> None:
    jobs = [a_job(tenant=tenant, delay=HOUR) for tenant in ("acme", "other")]
    await engine.submit(jobs)
    if change == "replay":
        await engine.change("cancel", [job.id for job in jobs], reason="changed my mind")
    before = await snapshot(engine, *(job.id for job in jobs))

    with pytest.raises(JobNotFoundError):
        await engine.change(change, [job.id for job in jobs], tenant="acme")

    assert await snapshot(engine, *(job.id for job in jobs)) == before


async def test_a_job_named_twice_is_replayed_once(engine: Engine) -> None:
    job = await a_job_that_is(State.DEAD, engine)

    first, second = await engine.change("replay", [job.id, job.id])

    worker = await a_worker(engine, queues=[job.queue])
    assert first == second == await engine.get(job.id)
    assert len(await worker.claim(10)) == 1
