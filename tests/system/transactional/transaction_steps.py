"""What tests of transactional completion have in common: an app, a worker, two views."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg

from longshore import Longshore
from longshore.contract import Engine
from longshore.core import ids, settle
from longshore.core.event import expand
from longshore.core.job import Claim, Settlement
from longshore.core.state import State
from longshore.handle import JobHandle
from longshore.scheduler.promote import Promoter
from longshore.testing.harness import eventually
from longshore.worker.settings import WorkerSettings
from longshore.worker.worker import Worker

TABLE = "create table if not exists public.done (n integer)"


async def prepare(url: str) -> None:
    """An empty table for what handlers write."""
    connection = await asyncpg.connect(url)
    await connection.execute(TABLE)
    await connection.execute("truncate public.done")
    await connection.close()


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Any]:
    """Someone who looks at the same database from outside."""
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()


async def write(connection: Any, n: int) -> None:
    await connection.execute("insert into public.done values ($1)", n)


async def written(db: Any) -> list[int]:
    return [row["n"] for row in await db.fetch("select n from public.done order by n")]


async def events(engine: Engine, handle: JobHandle[Any]) -> list[str]:
    batches = await engine.events(after=0, limit=1_000)
    return [
        one.name
        for batch in batches
        for one in expand(batch)
        if one.job_id == ids.parse(handle.id)
    ]


@asynccontextmanager
async def working(app: Longshore, **settings: Any) -> AsyncIterator[Worker]:
    """A worker beside the test, told to leave at its end."""
    lease = settings.pop("lease", 10.0)
    ticks = [("promote", Promoter(app.engine).tick)] if settings.pop("ticks", False) else []
    wanted = WorkerSettings(lease=timedelta(seconds=lease), name="w", **settings)
    worker = Worker(app.engine, app.registry(), wanted, ticks=ticks)
    task = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop_now()
        async with asyncio.timeout(10):
            await task


async def state_of(handle: JobHandle[Any]) -> State:
    return (await handle.get()).state


async def until(handle: JobHandle[Any], state: State) -> None:
    async def reached() -> bool:
        return await state_of(handle) is state

    await eventually(reached, within=20)


async def assert_in_order(db: Any) -> None:
    assert await db.fetch("select * from longshore.misplaced()") == []


async def claimed(app: Longshore, count: int = 1) -> tuple[Any, list[Claim]]:
    """A session without a worker, and the jobs it holds."""
    session = await app.engine.open_session(
        worker="w", queues=["default"], types=["ship"], lease=10_000_000
    )
    return session, (await session.exchange(1, want=count)).claims


def transaction(session: Any, claim: Claim) -> Any:
    return session.transaction((claim.handle, claim.delivery), started_at=claim.run_at)


def released(claim: Claim) -> Settlement:
    return settle.released(claim)


async def submitted(app: Longshore, count: int = 1) -> list[JobHandle[Any]]:
    return await app.submit_many([app.spec("ship", {"n": n}) for n in range(count)])


@asynccontextmanager
async def outbox_is_locked(url: str) -> AsyncIterator[Any]:
    """Whoever appends to the outbox waits, which a completion does behind the fence."""
    blocker = await asyncpg.connect(url)
    lock = blocker.transaction()
    await lock.start()
    await blocker.execute("lock table longshore.outbox in share mode")
    try:
        yield lock.rollback
    finally:
        await blocker.close()


async def lock_waits(db: Any, count: int) -> None:
    statement = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"

    async def reached() -> bool:
        return await db.fetchval(statement) == count

    await eventually(reached, within=10)


async def complete(session: Any, claim: Claim, n: int = 1) -> None:
    async with transaction(session, claim) as one:
        await write(one.connection, n)
