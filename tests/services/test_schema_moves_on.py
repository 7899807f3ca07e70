"""What a worker and a scheduler do when the schema goes where their code cannot follow."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from workshop import Workshop, within

from longshore.core.state import State
from longshore.engines import open_engine
from longshore.errors import EngineUnavailableError, SchemaError
from longshore.runtime.clock import SystemClock
from longshore.runtime.schema_watch import Outlook
from longshore.scheduler.service import Scheduler

CODE = (
    "insert into longshore_migration values (99, '0099_next', 'x', {works_with}, {until}, null)"
)
AHEAD = 1 << 60


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Workshop]:
    engine = open_engine(f"sqlite:///{tmp_path}/jobs.db")
    await engine.migrate()
    yield Workshop(engine, SystemClock())
    await engine.close()


def announce(folder: Path, *, works_with: int) -> None:
    with closing(sqlite3.connect(folder / "jobs.db")) as db, db:
        db.execute(CODE.format(works_with=works_with, until=AHEAD))


async def test_a_worker_finishes_what_runs_and_leaves_with_what_to_do(
    shop: Workshop, tmp_path: Path
):
    entered, go = asyncio.Event(), asyncio.Event()

    async def wait(_: Any) -> None:
        entered.set()
        await within(go.wait())

    shop.task("wait", wait)
    running, waiting = await shop.submit("wait"), await shop.submit("wait")
    worker = shop.worker(concurrency=1)
    work = asyncio.create_task(worker.run())
    await within(entered.wait())

    announce(tmp_path, works_with=99)
    await worker._outlook.tick()
    await worker._outlook.tick()
    go.set()
    with pytest.raises(SchemaError, match=r"about to go to 0099_next.* upgrade longshore"):
        await within(work)

    done, left = await shop.job(running), await shop.job(waiting)
    assert (done.state, done.delivery, done.crashes) == (State.SUCCEEDED, 1, 0)
    assert (left.state, left.attempt) == (State.READY, 0)
    assert (await shop.engine.sessions()).sessions == []


async def test_a_worker_goes_on_where_it_may(shop: Workshop, tmp_path: Path):
    async with shop.working() as worker:
        announce(tmp_path, works_with=1)
        await worker._outlook.tick()
        await worker._outlook.tick()

        assert worker._outlook.refusal is None
        assert worker._departure.ending is None


async def test_a_worker_that_may_not_work_does_not_begin(shop: Workshop, tmp_path: Path):
    job = await shop.submit("noop")
    announce(tmp_path, works_with=99)

    with pytest.raises(SchemaError, match="upgrade longshore"):
        await within(shop.worker().run())

    assert (await shop.job(job)).delivery == 0


async def test_a_scheduler_leaves_with_what_to_do(shop: Workshop, tmp_path: Path):
    announce(tmp_path, works_with=99)

    with pytest.raises(SchemaError, match="upgrade longshore"):
        await within(Scheduler(shop.engine).run())


async def test_what_fails_beside_a_running_scheduler_is_not_wrapped(shop: Workshop):
    with pytest.raises(SchemaError, match="as it is"):
        async with Scheduler(shop.engine).running():
            raise SchemaError("as it is")


async def test_a_store_that_is_away_is_no_reason_to_leave():
    async def away() -> None:
        raise EngineUnavailableError("gone")

    refused: list[int] = []
    outlook = Outlook(away, on_refused=lambda: refused.append(1))

    delays = [await outlook.tick() for _ in range(3)]

    assert refused == []
    assert all(3 < delay <= 5 for delay in delays)
