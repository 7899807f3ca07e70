"""Single jobs in spans: where they are, how they are taken out, and what looking costs."""

import asyncio
import json
import random
from collections import Counter

import pytest

from longshore.contract import Engine, JobFilter
from longshore.core import ids, settle
from longshore.core.job import Claim, JobId
from longshore.core.state import State
from longshore.engines.postgres.connection import Connection
from longshore.errors import IllegalTransitionError, JobNotFoundError
from longshore.runtime.clock import ManualClock
from longshore.testing.factories import HOUR, SECOND, a_job
from longshore.testing.manual import LEASE, ManualWorker, a_worker, reclaim_lapsed


async def _submitted(engine: Engine, count: int) -> list[JobId]:
    jobs = [a_job() for _ in range(count)]
    await engine.submit(jobs)
    return [job.id for job in jobs]


async def _succeed(worker: ManualWorker, *claims: Claim) -> None:
    now = await worker.engine.now()
    await worker.settle(
        *(settle.succeeded(claim, started_at=now, finished_at=now) for claim in claims)
    )


async def _misplaced(db: Connection) -> list[object]:
    return await db.fetch("select * from longshore.misplaced()")


async def test_cancelling_in_the_middle_of_a_span_leaves_the_others_claimable(
    engine: Engine, db: Connection
) -> None:
    jobs = await _submitted(engine, 20)

    await engine.change("cancel", [jobs[3], jobs[11], jobs[19]], reason="changed my mind")

    worker = await a_worker(engine)
    left = [job for job in jobs if job not in (jobs[3], jobs[11], jobs[19])]
    assert [claim.id for claim in await worker.claim(20)] == left
    assert await db.fetchval("select count(*) from longshore.finished") == 1
    assert await _misplaced(db) == []


async def test_replaying_what_was_cancelled_together_is_one_span_again(
    engine: Engine, db: Connection
) -> None:
    jobs = await _submitted(engine, 20)
    await engine.change("cancel", jobs[5:15], reason="changed my mind")

    await engine.change("replay", jobs[6:14])

    (counts,) = await engine.counts()
    assert (counts.ready, counts.cancelled) == (18, 2)
    assert await db.fetchval("select count(*) from longshore.ready") == 2
    assert await _misplaced(db) == []


async def test_an_order_that_one_job_refuses_changes_none(
    engine: Engine, db: Connection
) -> None:
    jobs = await _submitted(engine, 5)
    worker = await a_worker(engine)
    await _succeed(worker, *(await worker.claim(2)))

    with pytest.raises(IllegalTransitionError):
        await engine.change("cancel", [jobs[4], jobs[0]], reason="changed my mind")
    with pytest.raises(JobNotFoundError):
        await engine.change("cancel", [jobs[4], a_job().id], reason="changed my mind")

    (counts,) = await engine.counts()
    assert (counts.ready, counts.succeeded, counts.cancelled) == (3, 2, 0)
    assert await _misplaced(db) == []


async def test_a_job_is_where_the_journal_of_its_holder_says(
    engine: Engine, db: Connection
) -> None:
    jobs = await _submitted(engine, 4)
    worker = await a_worker(engine)
    first, second, third, _ = await worker.claim(4)
    await worker.start(third)

    await _succeed(worker, first)
    await worker.fail(second)

    assert await db.fetchval("select count(*) from longshore.claim") == 1
    states = [(await engine.get(job)).state for job in jobs]
    assert states == [State.SUCCEEDED, State.SCHEDULED, State.RUNNING, State.RUNNING]
    (counts,) = await engine.counts()
    assert (counts.succeeded, counts.scheduled, counts.running, counts.buffered) == (1, 1, 2, 1)
    assert [view.holding for view in (await engine.sessions()).sessions] == [2]
    found = await engine.find(JobFilter(state=State.SUCCEEDED), limit=10)
    assert [job.id for job in found.jobs] == [jobs[0]]
    assert await _misplaced(db) == []


async def test_a_session_may_hold_a_job_twice_in_its_spans(
    engine: Engine, clock: ManualClock, db: Connection
) -> None:
    """Of the first delivery only the journal knows that it ended."""
    jobs = await _submitted(engine, 3)
    worker = await a_worker(engine)
    first, *_ = await worker.claim(3)
    await worker.fail(first)
    clock.advance(SECOND)
    await engine.promote(limit=10)

    await worker.claim(3)

    assert await db.fetchval("select count(*) from longshore.claim") == 2
    job = await engine.get(jobs[0])
    assert (job.state, job.delivery, job.started_at) == (State.RUNNING, 2, None)
    assert await _misplaced(db) == []
    clock.advance(LEASE)
    assert await reclaim_lapsed(engine) == 3
    assert {(await engine.get(job)).state for job in jobs} == {State.READY}
    assert await _misplaced(db) == []


@pytest.mark.parametrize("is_lost", [False, True], ids=["its holder goes on", "it is lost"])
async def test_what_is_purged_out_of_a_span_that_is_still_held_does_not_come_back(
    engine: Engine, clock: ManualClock, db: Connection, is_lost: bool
) -> None:
    jobs = await _submitted(engine, 4)
    worker = await a_worker(engine)
    first, second, *rest = await worker.claim(4)
    await _succeed(worker, first, second)

    assert len(await engine.change("purge", [jobs[0]])) == 1

    with pytest.raises(JobNotFoundError):
        await engine.get(jobs[0])
    assert await _misplaced(db) == []
    if is_lost:
        clock.advance(LEASE)
        await reclaim_lapsed(engine)
        rest = await (worker := await a_worker(engine)).claim(4)
    await _succeed(worker, *rest)
    every = await engine.find(JobFilter(), limit=10)
    (counts,) = await engine.counts()
    assert [job.id for job in every.jobs] == jobs[:0:-1]
    assert (counts.succeeded, counts.running) == (3, 0)
    assert await _misplaced(db) == []
    assert await db.fetchval("select count(*) from longshore.journal") <= 1


async def test_nothing_is_left_of_a_segment_whose_last_job_was_purged(
    engine: Engine, db: Connection
) -> None:
    jobs = await _submitted(engine, 3)
    await engine.change("cancel", jobs, reason="changed my mind")

    for job in jobs:
        await engine.change("purge", [job])

    for table in ("segment", "locator", "finished"):
        assert await db.fetchval(f"select count(*) from longshore.{table}") == 0
    assert await engine.counts() == []


async def test_orders_and_claims_at_once_lose_and_double_nothing(
    engine: Engine, db: Connection
) -> None:
    jobs = await _submitted(engine, 300)
    chance = random.Random(7)
    workers = [await a_worker(engine, name=f"worker-{number}") for number in range(3)]
    claimed: Counter[JobId] = Counter()

    async def work(worker: ManualWorker) -> None:
        while claims := await worker.claim(7):
            claimed.update(claim.id for claim in claims)
            await _succeed(worker, *claims[::2])
            for claim in claims[1::2]:
                await worker.fail(claim)

    async def order(some: list[JobId]) -> None:
        for begin in range(0, len(some), 5):
            try:
                await engine.change("cancel", some[begin : begin + 5], reason="changed my mind")
                await engine.change("replay", some[begin : begin + 5])
            except IllegalTransitionError:
                continue

    picked = chance.sample(jobs, 120)
    orders = [order(picked[number::4]) for number in range(4)]
    await asyncio.gather(*orders, *map(work, workers))
    for worker in workers:
        await work(worker)

    (counts,) = await engine.counts()
    assert await _misplaced(db) == []
    assert counts.running == counts.ready == 0
    assert counts.succeeded + counts.scheduled + counts.cancelled == len(jobs)
    # What was stopped while it ran and then replayed was handed out twice, and says so.
    assert all([claimed[job] == (await engine.get(job)).delivery for job in jobs])


async def test_an_order_waits_for_the_exchange_that_moves_its_job(
    engine: Engine, db: Connection
) -> None:
    (job,) = await _submitted(engine, 1)
    await (await a_worker(engine)).claim()
    exchange = db.transaction()
    await exchange.start()
    await db.execute("select from longshore.session for no key update")

    order = asyncio.create_task(engine.change("cancel", [job], reason="changed my mind"))
    async with asyncio.timeout(10):
        while not await db.fetchval("select exists (select from pg_locks where not granted)"):
            assert not order.done()
    await db.execute("""
        with gone as (delete from longshore.claim returning *)
        insert into longshore.ready
            (queue, type, rank, segment, lo, hi, size, weight, run_at, delivery)
        select 'default', 'noop', rank, segment, lo, hi, size, weight, run_at, delivery
          from gone""")
    await exchange.commit()

    (cancelled,) = await order
    assert (cancelled.state, cancelled.cancel_requested) == (State.CANCELLED, False)
    assert await _misplaced(db) == []


async def test_people_with_psql_see_every_job(
    engine: Engine, clock: ManualClock, db: Connection
) -> None:
    new = a_job(payload=b'{"to":"ann"}', tags=("blue",), unique_key="ann", delay=HOUR)
    await engine.submit([new, a_job()])
    await engine.change("cancel", [new.id], reason="changed my mind")

    row = await db.fetchrow("select * from longshore.jobs where id = $1", ids.text(new.id))

    assert row is not None
    assert (row["state"], row["payload"], row["unique_key"]) == (
        "cancelled",
        '{"to":"ann"}',
        "ann",
    )
    assert json.loads(row["tags"]) == ["blue"]
    assert row["finished_at"].timestamp() * 1_000_000 == pytest.approx(clock.now(), abs=1)
    assert await db.fetchval("select count(*) from longshore.jobs") == 2


@pytest.mark.parametrize(
    "damage",
    [
        "delete from longshore.ready where segment in (select segment from longshore.ready)",
        "delete from longshore.claim",
        "delete from longshore.journal",
        "update longshore.ready set size = size + 1",
        "update longshore.ready set lo = lo + 1, size = size - 1",
        "insert into longshore.ready select * from longshore.ready",
        "insert into longshore.scheduled"
        " (run_at, segment, lo, hi, size, weight, queue, type, rank)"
        " select 1, segment, lo, hi, size, weight, queue, type, rank from longshore.ready",
        "delete from longshore.locator where ordinal = 7",
        "update longshore.locator set ordinal = ordinal + 100 where ordinal = 7",
        "delete from longshore.segment",
        "update longshore.finished set finished = finished || 1::bigint",
        "update longshore.finished set finished_at = finished_at + 1",
    ],
)
async def test_damage_is_found(
    engine: Engine, clock: ManualClock, db: Connection, damage: str
) -> None:
    await _submitted(engine, 10)
    worker = await a_worker(engine)
    first, second, *_ = await worker.claim(4)
    await worker.kill(first)
    await _succeed(worker, second)
    assert await _misplaced(db) == []

    await db.execute(damage)

    assert await _misplaced(db) != []


async def test_the_tally_of_what_is_finished_is_put_together(
    engine: Engine, db: Connection
) -> None:
    await db.execute("""
        insert into longshore.tally
        select array['q1'], array['default'], array['succeeded'], array[1]
          from generate_series(1, 9000)""")
    before = await engine.counts()

    while await db.fetchval("select longshore.fold(4096)") > 100:
        pass

    assert await engine.counts() == before
    assert [one.succeeded for one in before] == [9000]
    assert await db.fetchval("select count(*) from longshore.tally") < 20
