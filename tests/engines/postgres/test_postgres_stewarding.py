"""Several schedulers on one PostgreSQL: spans are moved, cut and buried once."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from longshore.contract import Engine, Promoted, Retention
from longshore.core import event, settle
from longshore.core.event import Name
from longshore.core.job import Failure, JobId
from longshore.core.state import State, Verb
from longshore.engines import open_engine
from longshore.engines.postgres import maintenance
from longshore.engines.postgres.connection import Connection
from longshore.errors import JobNotFoundError
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import a_job_that_is
from longshore.testing.factories import DAY, HOUR, MINUTE, SECOND, a_job, a_settlement
from longshore.testing.manual import LEASE, ManualWorker, a_worker

KEEP = Retention(succeeded=HOUR, cancelled=HOUR, dead=HOUR, outbox=30 * DAY)
WAITING = """
    select count(*) from pg_stat_activity
     where datname = current_database() and wait_event_type = 'Lock'
"""


@pytest.fixture
async def second(empty_postgres_url: str, clock: ManualClock) -> AsyncIterator[Engine]:
    """Another process's engine on the same database."""
    engine = open_engine(empty_postgres_url, clock=clock)
    yield engine
    await engine.close()


async def _until_someone_waits(observer: Connection) -> None:
    async with asyncio.timeout(10):
        while not await observer.fetchval(WAITING):
            await asyncio.sleep(0.005)


async def _made_ready(engine: Engine) -> list[JobId]:
    batches = await engine.events(after=0, limit=10_000)
    told = (one for batch in batches for one in event.expand(batch))
    return [one.job_id for one in told if one.name is Name.READY]


async def _succeed_one_by_one(
    worker: ManualWorker, clock: ManualClock, count: int, *, every: int
) -> list[JobId]:
    """Claim so many jobs together and finish them in order, `every` apart."""
    claims = await worker.claim(count)
    for claim in claims:
        await worker.succeed(claim)
        clock.advance(every)
    return [claim.id for claim in claims]


async def test_two_schedulers_make_each_due_job_ready_once(
    engine: Engine, second: Engine, clock: ManualClock
) -> None:
    jobs = [a_job(delay=number % 40 + 1, queue=f"q{number % 3}") for number in range(600)]
    await engine.submit(jobs)
    clock.advance(MINUTE)

    async def promote_all(scheduler: Engine) -> int:
        count = 0
        async with asyncio.timeout(30):
            while (promoted := await scheduler.promote(limit=37)).next_due_in is not None:
                assert promoted.count <= 37
                count += promoted.count
        return count + promoted.count

    counts = await asyncio.gather(
        *(promote_all(one) for one in (engine, second, engine, second))
    )

    assert sum(counts) == 600
    assert sorted(await _made_ready(engine)) == sorted(job.id for job in jobs)
    assert sum(one.ready for one in await engine.counts()) == 600


async def test_a_scheduler_goes_on_behind_what_another_holds(
    engine: Engine, other: Connection, clock: ManualClock
) -> None:
    first, later = a_job(delay=1), a_job(delay=2)
    await engine.submit([first, later])
    clock.advance(MINUTE)
    async with other.transaction():
        await other.execute(
            "select from longshore.scheduled order by run_at limit 1 for update"
        )

        promoted = await engine.promote(limit=10)
        again = await engine.promote(limit=10)

    assert (promoted, again) == (Promoted(1, 0), Promoted(0, 0))
    assert await _made_ready(engine) == [later.id]
    assert await engine.promote(limit=10) == Promoted(1, None)


async def test_an_old_snapshot_does_not_slow_down_the_look_for_what_is_due(
    engine: Engine, clock: ManualClock, other: Connection
) -> None:
    """Entries of promoted jobs stay in the index: one look passes over them, not every one."""
    explain = "explain (analyze, buffers, format json) select longshore.next_due($1)"

    async def pages_read() -> int:
        (plan,) = json.loads(await other.fetchval(explain, clock.now()))
        return plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"]

    async with other.transaction():
        await other.execute(
            """
            insert into longshore.scheduled
                (run_at, segment, lo, hi, size, weight, queue, type, rank)
            select $1::bigint - s, s, 0, 1, 1, 1, 'q', 't', 1 from generate_series(1, 50000) s
            """,
            clock.now() - MINUTE,
        )
        await other.execute("delete from longshore.scheduled")

        first, *later = [await pages_read() for _ in range(4)]

    assert max(later) * 10 < first


async def test_a_job_that_was_committed_long_after_its_due_time_is_found(
    engine: Engine, clock: ManualClock, other: Connection
) -> None:
    await engine.submit([a_job(delay=1)])
    clock.advance(MINUTE)
    await other.execute("select setval('longshore.due_from', $1)", clock.now() - SECOND)
    await other.execute("select setval('longshore.due_all_at', $1)", clock.now() + SECOND)
    early = await engine.promote(limit=10)
    clock.advance(SECOND)

    assert early == Promoted(0, None)
    assert await engine.promote(limit=10) == Promoted(1, None)


async def test_a_clock_set_back_hides_nothing_that_is_due(
    engine: Engine, clock: ManualClock, other: Connection
) -> None:
    await other.execute("select setval('longshore.due_from', $1)", clock.now() - SECOND)
    await other.execute("select setval('longshore.due_all_at', $1)", clock.now() + HOUR)
    clock.step(-MINUTE)
    await engine.submit([a_job(delay=1)])
    clock.advance(1)

    assert await engine.promote(limit=10) == Promoted(1, None)


async def test_retries_that_share_a_span_are_promoted_up_to_the_limit(
    engine: Engine, clock: ManualClock, other: Connection
) -> None:
    await engine.submit([a_job() for _ in range(9)])
    worker = await a_worker(engine)
    claims = await worker.claim(9)
    now = clock.now()
    failing = claims[1::2]
    await worker.settle(
        *(
            settle.failed(one, Failure("E", ""), delay=1, started_at=now, finished_at=now)
            for one in failing
        )
    )
    clock.advance(SECOND)
    spans = await other.fetchval("select count(*) from longshore.scheduled")

    first = await engine.promote(limit=3)
    early = await _made_ready(engine)
    last = await engine.promote(limit=3)

    assert spans == 1
    assert (first, last) == (Promoted(3, 0), Promoted(1, None))
    assert early == [claim.id for claim in failing[:3]]
    assert await _made_ready(engine) == [claim.id for claim in failing]
    assert [claim.id for claim in await worker.claim(9)] == [claim.id for claim in failing]


async def test_of_a_span_that_is_partly_past_its_retention_the_rest_is_kept_whole(
    engine: Engine, clock: ManualClock, other: Connection
) -> None:
    await engine.submit([a_job() for _ in range(6)])
    worker = await a_worker(engine, lease=DAY)
    ids = await _succeed_one_by_one(worker, clock, 6, every=MINUTE)
    before = [await engine.get(one) for one in ids]
    history = [await engine.attempts(one) for one in ids]
    spans = await other.fetchval("select count(*) from longshore.finished")
    clock.advance(HOUR - 4 * MINUTE)

    pruned = await engine.prune(KEEP, limit=100)

    earliest = await other.fetchval("select finished_at from longshore.finished")
    assert (spans, pruned) == (1, 3)
    assert earliest == before[3].finished_at
    for gone in ids[:3]:
        with pytest.raises(JobNotFoundError):
            await engine.get(gone)
    assert [await engine.get(one) for one in ids[3:]] == before[3:]
    assert [await engine.attempts(one) for one in ids[3:]] == history[3:]
    clock.advance(2 * MINUTE)
    assert await engine.prune(KEEP, limit=100) == 2
    assert await engine.get(ids[5]) == before[5]


async def test_a_limit_inside_a_span_is_kept_to(engine: Engine, clock: ManualClock) -> None:
    await engine.submit([a_job() for _ in range(7)])
    worker = await a_worker(engine)
    await _succeed_one_by_one(worker, clock, 7, every=0)
    clock.advance(2 * HOUR)

    pruned = [await engine.prune(KEEP, limit=3) for _ in range(4)]

    assert pruned == [3, 3, 1, 0]


async def test_nothing_is_left_of_pruned_jobs(
    engine: Engine, clock: ManualClock, other: Connection
) -> None:
    await engine.submit([a_job(unique_key=str(number)) for number in range(5)])
    worker = await a_worker(engine)
    claims = await worker.claim(5)
    now = clock.now()
    await worker.fail(claims[0])
    await worker.settle(
        *(
            settle.succeeded(claim, started_at=now, finished_at=now, result=b"1")
            for claim in claims[1:4]
        )
    )
    await worker.kill(claims[4], "no use")
    await worker.session.close()
    await engine.change("cancel", [claims[0].id], reason="no longer needed")
    clock.advance(2 * HOUR)

    assert await engine.prune(KEEP, limit=100) == 5

    for table in ("segment", "locator", "finished", "result", "attempt", "uniqueness"):
        assert await other.fetchval(f"select count(*) from longshore.{table}") == 0, table


async def test_of_two_that_take_a_segments_last_jobs_one_takes_the_segment(
    engine: Engine, clock: ManualClock, other: Connection, observer: Connection
) -> None:
    jobs = [a_job(), a_job()]
    await engine.submit(jobs)
    await engine.change("cancel", [jobs[0].id], reason="no longer needed")
    await engine.change("cancel", [jobs[1].id], reason="no longer needed")
    clock.advance(2 * HOUR)
    first = other.transaction()
    await first.start()
    taken = await other.fetchrow(
        "delete from longshore.finished where lo = 0 returning segment, lo, hi, mask"
    )
    assert taken is not None
    await other.execute(
        "select longshore.forget($1, $2, $3, $4)",
        *([taken[name]] for name in ("segment", "lo", "hi", "mask")),
    )

    pruning = asyncio.create_task(engine.prune(KEEP, limit=100))
    await _until_someone_waits(observer)
    await first.commit()

    assert await pruning == 1
    assert await other.fetchval("select count(*) from longshore.segment") == 0


async def test_pruning_does_not_wait_for_whoever_replays(
    engine: Engine, clock: ManualClock, other: Connection
) -> None:
    jobs = [a_job(), a_job(queue="mail")]
    await engine.submit(jobs)
    await engine.change("cancel", [job.id for job in jobs], reason="no longer needed")
    clock.advance(2 * HOUR)
    async with other.transaction():
        await other.execute(
            "select from longshore.finished order by segment limit 1 for update"
        )

        pruned = await engine.prune(KEEP, limit=100)

    assert pruned == 1
    assert await engine.prune(KEEP, limit=100) == 1


async def test_a_renewal_under_way_saves_its_session_from_being_buried(
    engine: Engine, clock: ManualClock, other: Connection, observer: Connection
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    clock.advance(LEASE)
    renewal = other.transaction()
    await renewal.start()
    await other.execute("update longshore.session set expires_at = expires_at + $1", LEASE)

    lost = a_settlement(claim, Verb.RECLAIM, lapse=True)
    reclaiming = asyncio.create_task(engine.end_session(worker.session.token, [lost], grace=0))
    await _until_someone_waits(observer)
    await renewal.commit()

    assert await reclaiming == 0
    assert (await engine.get(claim.id)).state is State.RUNNING
    assert (await worker.succeed(claim)).stale == []


async def test_what_a_dead_session_had_told_is_not_run_again(
    engine: Engine, clock: ManualClock, other: Connection
) -> None:
    """Some succeeded, some failed, one was out: nothing of it stays behind the session."""
    await engine.submit([a_job() for _ in range(10)])
    worker = await a_worker(engine)
    claims = await worker.claim(10)
    for claim in claims[::2]:
        await worker.succeed(claim)
    await worker.fail(claims[1])
    await worker.start(*claims[3:])
    clock.advance(LEASE)
    (lapsed,) = await engine.expired_sessions(grace=0, limit=10)

    settled = await engine.end_session(
        lapsed.token, [settle.lost(held) for held in lapsed.held], grace=0
    )

    states = [(await engine.get(claim.id)).state for claim in claims]
    assert sorted(held.id for held in lapsed.held) == [claim.id for claim in claims[3::2]]
    assert settled == 4
    assert states[::2] == [State.SUCCEEDED] * 5
    assert states[1::2] == [State.SCHEDULED] + [State.READY] * 4
    for table in ("session", "claim", "journal", "request"):
        assert await other.fetchval(f"select count(*) from longshore.{table}") == 0, table


async def test_large_payloads_of_the_dead_are_told_in_parts(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "MOST_BYTES", 3_500)
    huge = a_job(payload=b'{"x": "' + b"x" * 9_000 + b'"}')
    await engine.submit([huge])
    await engine.submit([a_job(payload=b" " * 998 + b"{}") for _ in range(4)])
    worker = await a_worker(engine)
    for claim in await worker.claim(5):
        await worker.kill(claim, "no use")
        clock.advance(1)
    clock.advance(2 * HOUR)

    pruned = [await engine.prune(KEEP, limit=100) for _ in range(4)]

    assert pruned == [1, 3, 1, 0]


async def test_a_backlog_of_one_kind_does_not_keep_others_from_being_pruned(
    engine: Engine, clock: ManualClock
):
    for state in [*(State.SUCCEEDED,) * 17, State.DEAD, State.CANCELLED]:
        await a_job_that_is(state, engine)
    before = len(await engine.events(after=0, limit=1_000))
    clock.advance(2 * HOUR)
    retention = Retention(succeeded=HOUR, cancelled=HOUR, dead=HOUR, outbox=HOUR)

    pruned = [await engine.prune(retention, limit=8) for _ in range(2)]

    (left,) = await engine.counts()
    assert pruned == [8, 8]
    assert (left.dead, left.cancelled) == (0, 0)
    assert left.succeeded > 0
    assert len(await engine.events(after=0, limit=1_000)) < before
