"""Which claims wait for each other: those that a limit or the order of turns may hold back."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from calls import until

from longshore.contract import Engine
from longshore.core import settle
from longshore.core.job import Claim
from longshore.core.limit_settings import BreakerSettings, Layer, Order, QueueSettings
from longshore.engines.postgres.connection import Connection
from longshore.records import breaker_settings, queue_settings
from longshore.runtime.clock import ManualClock
from longshore.testing.factories import SECOND, a_job
from longshore.testing.manual import ManualWorker, a_worker

WAITING = """
    select count(*) from pg_stat_activity
     where datname = current_database() and wait_event_type = 'Lock'
       and pg_stat_clear_snapshot() is not null
"""
ALONE = QueueSettings(rate=1_000.0, burst=1_000, max_running=100)
LIMITS = {
    "rate": ALONE,
    "near": QueueSettings(max_running=4),
    "full": QueueSettings(max_running=8),
    "fair": QueueSettings(order=Order.FAIR),
}


async def put(engine: Engine, settings: QueueSettings, queue: str = "default") -> None:
    await queue_settings.put(engine, queue, Layer.OVERRIDDEN, settings)


@pytest.fixture
async def worker(engine: Engine) -> ManualWorker:
    await engine.submit([a_job() for _ in range(20)])
    return await a_worker(engine, queues=["default", "aging", "other"])


@asynccontextmanager
async def claiming(db: Connection, queue: str, how: str = "_shared") -> AsyncGenerator[None]:
    """Someone else claims from the queue."""
    async with db.transaction():
        await db.execute(f"select pg_advisory_xact_lock{how}(longshore.flow_key($1))", queue)
        yield


async def claimed(worker: ManualWorker, want: int = 1, *queues: str) -> list[Claim]:
    async with asyncio.timeout(5):
        return await worker.claim(want, queues=queues or ["default"])


async def test_claims_far_below_a_limit_go_beside_each_other(
    engine: Engine, db: Connection, worker: ManualWorker
) -> None:
    await put(engine, QueueSettings(max_running=100))
    await claimed(worker)

    async with claiming(db, "default"):
        claims = await claimed(worker)

    assert len(claims) == 1


@pytest.mark.parametrize("limit", LIMITS)
async def test_claims_that_may_be_held_back_go_one_after_the_other(
    engine: Engine, db: Connection, observer: Connection, worker: ManualWorker, limit: str
) -> None:
    await put(engine, LIMITS[limit])
    first = await claimed(worker, 8)
    if limit != "near":
        now = await engine.now()
        ends = [settle.succeeded(one, started_at=now, finished_at=now) for one in first]
        await worker.settle(*ends)

    async with claiming(db, "default"):
        claim = asyncio.create_task(worker.claim(1, queues=["default"]))
        await until(observer, WAITING)
        is_done = claim.done()

    assert not is_done
    assert len(await claim) == (limit != "near")


async def test_a_claim_waits_for_no_queue_but_those_it_asks_for_that_have_a_rule(
    engine: Engine, db: Connection, worker: ManualWorker
) -> None:
    await put(engine, QueueSettings(max_running=4), "other")
    await put(engine, QueueSettings(order=Order.AGING), "aging")
    await engine.submit([a_job(queue="aging")])

    async with claiming(db, "other", ""), claiming(db, "aging", ""):
        claims = await claimed(worker, 30, "default", "aging")

    assert len(claims) == 21


async def test_a_claim_takes_nothing_of_a_queue_that_has_filled_up_since_it_looked(
    engine: Engine, db: Connection, observer: Connection, worker: ManualWorker
) -> None:
    other = await a_worker(engine, name="other")
    await put(engine, QueueSettings(max_running=8))
    (claim,) = await claimed(worker)
    await claimed(other)
    now = await engine.now()
    ended = settle.succeeded(claim, started_at=now, finished_at=now)

    async with db.transaction():
        await db.execute(
            "update longshore.running set jobs = case when token = $1 then 1 else 6 end",
            worker.session.token,
        )
        claiming = asyncio.create_task(
            worker.exchange(settlements=[ended], want=1, queues=["default"])
        )
        await until(observer, WAITING)

    assert (await claiming).claims == []
    assert len(await claimed(worker)) == 1


async def test_a_claim_takes_nothing_of_a_queue_that_got_a_rate_since_it_looked(
    engine: Engine, db: Connection, observer: Connection, worker: ManualWorker
) -> None:
    await put(engine, QueueSettings(max_running=100), "other")
    await engine.submit([a_job(queue="other")])
    (claim,) = await claimed(worker, 1, "other")
    now = await engine.now()
    ended = settle.succeeded(claim, started_at=now, finished_at=now)

    async with db.transaction():
        await db.execute("update longshore.running set jobs = 1")
        await db.execute(
            "insert into longshore.flow (queue, settings)"
            " values ('default', jsonb_build_object('rate', 1000.0))"
        )
        claiming = asyncio.create_task(
            worker.exchange(settlements=[ended], want=1, queues=["other", "default"])
        )
        await until(observer, WAITING)

    assert (await claiming).claims == []
    assert len(await claimed(worker)) == 1


async def test_a_breaker_that_opens_while_a_probe_waits_for_it_lets_none_run(
    engine: Engine,
    clock: ManualClock,
    db: Connection,
    observer: Connection,
    worker: ManualWorker,
) -> None:
    await breaker_settings.put(
        engine, "noop", Layer.OVERRIDDEN, BreakerSettings(failures=1, cooldown=SECOND)
    )
    (claim,) = await claimed(worker)
    await worker.fail(claim)
    clock.advance(SECOND)

    async with db.transaction():
        await db.execute(
            "update longshore.breaker set since = $1, until = $2", clock.now(), clock.now() + 9
        )
        probing = asyncio.create_task(worker.claim(1, queues=["default"]))
        await until(observer, WAITING)

    assert await probing == []
