"""Which sessions are noted as waiting for work: a submit wakes them, and a crash asks for them.

After a crash nobody claims until each session that was noted has been heard of. Here the store
is told that there was one; `test_postgres_lost_claims` has crashes.
"""

import pytest

from longshore.contract import Engine
from longshore.core import settle
from longshore.core.limit_settings import Layer, QueueSettings
from longshore.core.state import State
from longshore.engines.postgres.connection import Connection
from longshore.errors import LeaseLostError
from longshore.records import queue_settings
from longshore.runtime.clock import ManualClock
from longshore.testing.factories import HOUR, a_job
from longshore.testing.manual import LEASE, ManualWorker, a_worker


async def _waiting(db: Connection) -> set[int]:
    return {row["token"] for row in await db.fetch("select token from longshore.waiting")}


async def _crashed(db: Connection) -> None:
    """Whoever was noted as waiting has to be heard of first."""
    await db.execute("update longshore.era_row set is_clear = false")


async def _heard_of(db: Connection, worker: ManualWorker) -> None:
    await db.execute("delete from longshore.waiting where token = $1", worker.session.token)


@pytest.fixture
async def holder(engine: Engine) -> ManualWorker:
    """Found nothing, and waits."""
    worker = await a_worker(engine, name="holder", lease=HOUR)
    assert await worker.claim(10) == []
    return worker


async def test_a_session_that_found_nothing_waits_until_it_finds_something(
    engine: Engine, db: Connection, holder: ManualWorker
) -> None:
    before = await _waiting(db)
    await engine.submit([a_job()])
    await holder.claim()

    assert before == {holder.session.token}
    assert await _waiting(db) == set()


async def test_a_session_that_wants_nothing_does_not_wait(
    engine: Engine, db: Connection
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()

    await worker.succeed(claim)

    assert await _waiting(db) == set()


async def test_a_session_that_waits_is_left_waiting_by_others(
    engine: Engine, db: Connection, holder: ManualWorker
) -> None:
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)

    (claim,) = await worker.claim()
    await worker.succeed(claim)
    assert len(await worker.claim()) == 1
    await engine.end_session(worker.session.token, [])

    assert await _waiting(db) == {holder.session.token}


async def test_where_a_limit_leaves_no_room_nobody_waits_for_jobs(
    engine: Engine, db: Connection
) -> None:
    await queue_settings.put(engine, "full", Layer.DECLARED, QueueSettings(max_running=1))
    await engine.submit([a_job(queue="full"), a_job(queue="full")])
    first = await a_worker(engine, queues=["full"])
    assert len(await first.claim(9)) == 1
    one = await a_worker(engine, queues=["full"])
    both = await a_worker(engine, queues=["full", "free"])
    await queue_settings.put(engine, "free", Layer.DECLARED, QueueSettings(max_running=1))

    assert await one.claim() == []
    assert await both.claim() == []

    assert await _waiting(db) == {both.session.token}


async def test_a_session_that_found_a_job_in_the_hands_of_another_does_not_wait(
    engine: Engine, db: Connection, other: Connection
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    async with other.transaction():
        await other.execute("select from longshore.ready for update")

        missed = await worker.claim()

    assert missed == []
    assert await _waiting(db) == set()


async def test_what_is_told_after_a_crash_is_recorded_though_nobody_claims(
    engine: Engine, db: Connection, holder: ManualWorker
) -> None:
    jobs = [a_job(), a_job()]
    await engine.submit(jobs)
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await _crashed(db)

    end = settle.succeeded(claim, started_at=1, finished_at=1)
    answer = await worker.exchange(settlements=[end], want=1)

    assert answer.claims == []
    assert (await engine.get(claim.id)).state is State.SUCCEEDED


async def test_the_last_exchange_can_be_sent_again_after_a_crash(
    engine: Engine, db: Connection, holder: ManualWorker
) -> None:
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    claims = await worker.claim()
    await _crashed(db)

    again = await worker.repeat()

    assert again.claims == claims


async def test_a_lease_that_is_over_is_lost_after_a_crash_too(
    engine: Engine, db: Connection, clock: ManualClock, holder: ManualWorker
) -> None:
    worker = await a_worker(engine)
    await worker.exchange()
    clock.advance(LEASE)
    await _crashed(db)

    with pytest.raises(LeaseLostError):
        await worker.claim()


async def test_whoever_asks_after_a_crash_is_not_waited_for(
    engine: Engine, db: Connection, holder: ManualWorker
) -> None:
    await engine.submit([a_job(), a_job()])
    worker, another = await a_worker(engine), await a_worker(engine)
    (claim,) = await worker.claim()
    await _crashed(db)
    end = settle.succeeded(claim, started_at=1, finished_at=1)
    early = (await worker.exchange(settlements=[end], want=1)).claims

    await _heard_of(db, holder)
    late = await another.claim()

    assert (len(early), len(late)) == (0, 1)


async def test_a_session_whose_lease_is_over_is_not_waited_for(
    engine: Engine, db: Connection, clock: ManualClock, holder: ManualWorker
) -> None:
    await engine.submit([a_job()])
    clock.advance(HOUR)
    worker = await a_worker(engine)
    await _crashed(db)

    assert len(await worker.claim()) == 1
