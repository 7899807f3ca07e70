"""What stays in the tables when jobs are gone, and what may not be taken from them yet."""

import pytest

from longshore.contract import Engine, Retention
from longshore.core import settle
from longshore.engines.postgres.connection import Connection
from longshore.errors import EngineBusyError
from longshore.runtime.clock import ManualClock
from longshore.testing.factories import DAY, HOUR, a_job
from longshore.testing.manual import a_worker

_KEEP = Retention(succeeded=HOUR, cancelled=HOUR, dead=30 * DAY, outbox=30 * DAY)


async def test_a_batch_is_gone_with_its_last_job_whatever_is_left_of_others(
    engine: Engine, db: Connection, clock: ManualClock
) -> None:
    gone = a_job()
    await engine.submit([gone])
    await engine.change("cancel", [gone.id], reason="no longer needed")
    await engine.submit([a_job() for _ in range(2)])
    await engine.submit([a_job(delay=DAY)])
    await engine.submit([a_job(ordering_key="k", queue="lined") for _ in range(2)])
    worker = await a_worker(engine, lease=DAY)
    dead, _ = await worker.claim(2)
    await worker.kill(dead)
    await engine.submit([a_job()])
    for home in ("ready", "scheduled", "parked", "claim", "finished"):
        assert await db.fetchval(f"select count(*) from longshore.{home}") > 0, home
    segments = await db.fetchval("select count(*) from longshore.segment")
    clock.advance(2 * HOUR)

    assert await engine.prune(_KEEP, limit=100) == 1

    assert await db.fetchval("select count(*) from longshore.segment") == segments - 1


async def test_what_a_busy_session_told_is_pruned_when_it_is_not_busy(
    engine: Engine, db: Connection, clock: ManualClock
) -> None:
    await engine.submit([a_job() for _ in range(4)])
    one, busy = await a_worker(engine, lease=DAY), await a_worker(engine, lease=DAY)
    for worker in (one, busy):
        first, _ = await worker.claim(2)
        await worker.succeed(first)
    clock.advance(2 * HOUR)
    async with db.transaction():
        await db.execute(
            "select from longshore.session where token = $1 for no key update",
            busy.session.token,
        )

        meanwhile = await engine.prune(_KEEP, limit=100)

    assert (meanwhile, await engine.prune(_KEEP, limit=100)) == (1, 1)


async def test_a_part_of_a_claim_that_is_gone_is_noticed_when_another_part_ends(
    engine: Engine, db: Connection
) -> None:
    """Claims with ordering keys are brought up to date at each end."""
    await engine.submit([a_job(ordering_key=key) for key in "ab"])
    worker = await a_worker(engine)
    first, _ = await worker.claim(2)
    await db.execute("delete from longshore.claim")
    end = settle.succeeded(first, started_at=1, finished_at=1)

    with pytest.raises(EngineBusyError):
        await worker.exchange(settlements=[end])


async def test_whatever_joins_its_line_is_stored_soundly(
    engine: Engine, db: Connection
) -> None:
    for types in (("a", "a", "a"), ("a", "b", "a")):
        jobs = [
            a_job(ordering_key=key, type=name) for key, name in zip("klk", types, strict=True)
        ]
        await engine.submit(jobs)

        assert await db.fetch("select * from longshore.misplaced()") == []

    assert await db.fetchval("select sum(size) from longshore.ready") == 2


async def test_the_tally_is_put_together_a_part_at_a_time(
    engine: Engine, db: Connection
) -> None:
    for jobs in (2, 3, -5):
        await db.execute(
            "insert into longshore.tally values ('{q}', '{default}', '{dead}', $1)", [jobs]
        )

    folded = [await db.fetchval("select longshore.fold($1)", many) for many in (1, 9, 9)]

    assert folded == [1, 3, 0]
    assert await db.fetchval("select count(*) from longshore.tally") == 0
