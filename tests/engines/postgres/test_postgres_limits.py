"""Limits on PostgreSQL: claims that come at the same time."""

import asyncio
import random

import pytest

from longshore.contract import Engine
from longshore.core.limit_settings import Layer, QueueSettings
from longshore.core.state import Verb
from longshore.engines import open_engine
from longshore.engines.postgres.database import Connection
from longshore.records import queue_settings
from longshore.testing.factories import a_job, a_settlement
from longshore.testing.harness import eventually
from longshore.testing.manual import ManualWorker, a_worker


@pytest.mark.parametrize("limit", [7, 60], ids=["tight", "loose"])
async def test_claims_at_the_same_time_do_not_get_past_the_limit(
    empty_postgres_url: str, limit: int
):
    engine = open_engine(empty_postgres_url)
    await engine.migrate()
    await queue_settings.put(
        engine, "default", Layer.DECLARED, QueueSettings(max_running=limit)
    )
    for _ in range(4):
        await engine.submit([a_job() for _ in range(50)])
    workers = [await a_worker(engine, name=f"w{number}") for number in range(5)]
    seen: list[int] = []
    is_over = asyncio.Event()

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(_watch(engine, seen, is_over))
        group.create_task(_change(engine, limit, is_over))
        done = [
            group.create_task(_work(worker, number)) for number, worker in enumerate(workers)
        ]
        await asyncio.wait(done)
        is_over.set()

    await engine.close()
    assert sum(one.result() for one in done) == 200
    assert max(seen) <= limit
    assert max(seen) > 1


async def test_what_is_left_of_a_session_that_is_gone_takes_up_no_place(
    engine: Engine, db: Connection
):
    await queue_settings.put(engine, "default", Layer.DECLARED, QueueSettings(max_running=3))
    await engine.submit([a_job() for _ in range(4)])
    worker = await a_worker(engine)
    first = await worker.claim(1)
    await db.execute("insert into longshore.running values ('default', 10000, 2)")

    rest = await worker.claim(4)

    assert (len(first), len(rest)) == (1, 2)


async def test_settings_of_a_queue_change_only_between_claims(engine: Engine, db: Connection):
    claiming = db.transaction()
    await claiming.start()
    await db.execute("select pg_advisory_xact_lock_shared(longshore.flow_key('default'))")
    settings = QueueSettings(max_running=1)
    putting = asyncio.create_task(
        queue_settings.put(engine, "default", Layer.DECLARED, settings)
    )

    async def is_waiting() -> bool:
        return await db.fetchval(
            "select exists (select from pg_locks l join pg_database d on d.oid = l.database"
            "                where d.datname = current_database()"
            "                  and l.locktype = 'advisory' and not l.granted)"
        )

    await eventually(is_waiting)
    assert not putting.done()
    await claiming.rollback()

    await asyncio.wait_for(putting, 10)


async def _watch(engine: Engine, seen: list[int], is_over: asyncio.Event) -> None:
    while not is_over.is_set():
        (counts,) = await engine.counts()
        seen.append(counts.running)


async def _change(engine: Engine, limit: int, is_over: asyncio.Event) -> None:
    """Whoever changes a limit neither waits for claims for ever nor has them wait."""
    while not is_over.is_set():
        for most in (limit - 1, limit):
            settings = QueueSettings(max_running=most)
            await queue_settings.put(engine, "default", Layer.OVERRIDDEN, settings)
        await asyncio.sleep(0.02)


async def _work(worker: ManualWorker, seed: int) -> int:
    """Claim and settle in pieces, until nothing is left."""
    chance = random.Random(seed)
    held, done = [], 0
    while True:
        ended = [held.pop() for _ in range(chance.randint(0, len(held)))]
        done += len(ended)
        settlements = [a_settlement(one, Verb.SUCCEED) for one in ended]
        want = chance.choice([0, 1, 3, 20])
        answer = await worker.exchange(settlements=settlements, want=want)
        held += answer.claims
        if want and not held and not answer.claims and answer.look_in is None:
            return done
