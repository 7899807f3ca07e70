"""What a worker tells its keeper through the flight record, and what it hears from it."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from workshop import Workshop, within

from longshore.core.job import JobId
from longshore.core.state import State, Verb
from longshore.engines import open_engine
from longshore.runtime.clock import SystemClock
from longshore.runtime.flight import Entry
from longshore.testing.harness import eventually
from longshore.worker.keeper import KeeperOffer, KeeperProcess
from longshore.worker.worker import Worker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="keepers are for Linux")


class Kept(Workshop):
    """A workshop on a file, whose workers have keepers."""

    def __init__(self, url: str) -> None:
        super().__init__(open_engine(url), SystemClock())
        self.url = url
        self.gate = asyncio.Event()
        self.begun = 0
        self.task("hold", self._hold)
        self.task("value", self._value)
        self.task("fails", self._fails)
        self.task("plain", self._plain)

    @asynccontextmanager
    async def kept(self, **settings: Any) -> AsyncGenerator[tuple[Worker, KeeperProcess]]:
        worker = self.worker(**settings)
        running = asyncio.create_task(worker.run(keeper=KeeperOffer(url=self.url)))
        await eventually(lambda: worker.is_live, every=0.002)
        assert worker.keeper is not None
        try:
            yield worker, worker.keeper
        finally:
            self.flaky.come_back()
            self.gate.set()
            worker.drain()
            await within(running)

    async def has_begun(self, count: int) -> None:
        await eventually(lambda: self.begun >= count, every=0.002)

    async def _hold(self, _: Any) -> None:
        self.begun += 1
        await self.gate.wait()

    async def _value(self, _: Any) -> str:
        await self._hold(_)
        return "x"

    async def _fails(self, _: Any) -> None:
        await self._hold(_)
        raise ValueError("no such user")

    def _plain(self, _: Any) -> None:
        self.begun += 1


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Kept]:
    shop = Kept(f"sqlite:///{tmp_path}/jobs.db")
    await shop.engine.migrate()
    yield shop
    await shop.engine.close()


def by_verb(entries: list[Entry]) -> list[str]:
    """How the record says that each attempt ended."""
    return sorted(
        "running"
        if one.ended is None
        else (one.settlement.verb if one.settlement else "returned")
        for one in entries
    )


async def test_a_handler_that_runs_is_in_the_record(shop: Kept):
    job_id = await shop.submit("hold", timeout=60_000_000)
    async with shop.kept() as (_, keeper):
        await shop.has_begun(1)

        (entry,) = keeper.record.entries()
        held = await shop.engine.held(keeper.record.token)

    assert held is not None
    assert [(one.handle, one.delivery) for one in held] == [(entry.handle, entry.delivery)]
    assert entry.ended is None
    assert entry.deadline == pytest.approx(entry.started + 60)
    assert (await shop.job(job_id)).state is State.SUCCEEDED


async def test_the_record_tells_of_ends_that_the_engine_has_not_heard_of(shop: Kept):
    for name in ("hold", "value", "fails"):
        await shop.submit(name)
    async with shop.kept() as (_, keeper):
        await shop.has_begun(3)
        shop.flaky.hang()

        shop.gate.set()
        await eventually(lambda: "running" not in by_verb(keeper.record.entries()))
        entries = keeper.record.entries()

    assert by_verb(entries) == ["retry", "returned", Verb.SUCCEED]
    (value,) = [one.settlement for one in entries if one.settlement and one.settlement.result]
    assert value.result == b'"x"'


async def test_what_the_engine_has_heard_of_makes_room_for_others(shop: Kept):
    async with shop.kept() as (worker, keeper):
        room = len(keeper.record.free)
        shop.gate.set()
        names = ("hold", "value", "fails", "plain") * 5
        ids = [await shop.submit(name, max_attempts=1) for name in names]
        worker.nudge()

        await settled(shop, ids)
        await eventually(lambda: len(keeper.record.free) == room)

    assert keeper.record.is_whole
    assert sorted(keeper.record.free) == list(range(room))


async def test_a_lost_lease_frees_what_the_record_kept_for_it(shop: Kept):
    for name in ("hold", "value"):
        await shop.submit(name)
    async with shop.kept() as (_, keeper):
        await shop.has_begun(2)
        room = len(keeper.record.free) + 2
        token = keeper.record.token

        await shop.engine.end_session(token, [])
        await eventually(lambda: keeper.record.token not in (0, token))
        shop.gate.set()
        await eventually(lambda: len(keeper.record.free) == room)

    assert keeper.record.is_whole


async def test_jobs_that_wait_for_a_room_are_not_in_the_record(shop: Kept):
    for _ in range(5):
        await shop.submit("hold")
    async with shop.kept(concurrency=1, claim_batch=10) as (_, keeper):
        await shop.has_begun(1)

        assert len(keeper.record.entries()) == 1


@pytest.mark.slow
async def test_a_worker_believes_its_keepers_renewals(shop: Kept):
    """Its own renewals hang for three leases, those of its keeper do not."""
    lease = 1.5
    await shop.submit("hold")
    async with shop.kept(lease=timedelta(seconds=lease)) as (worker, keeper):
        await shop.has_begun(1)
        await eventually(lambda: keeper.record.renewed(keeper.record.token))
        shop.flaky.hang()
        began = shop.clock.monotonic()

        await eventually(lambda: shop.clock.monotonic() > began + 3 * lease)
        is_live, lost = worker.is_live, worker.stats.lost_leases

    assert (is_live, lost) == (True, 0)


async def test_a_worker_without_a_keepers_renewals_gives_up(shop: Kept):
    lease = 1.0
    await shop.submit("hold")
    async with shop.kept(lease=timedelta(seconds=lease)) as (worker, keeper):
        await shop.has_begun(1)
        assert keeper.pid is not None
        os.kill(keeper.pid, signal.SIGSTOP)
        shop.flaky.hang()

        await eventually(lambda: worker.stats.lost_leases == 1)

        assert not worker.is_live


async def test_a_keeper_that_died_is_counted_and_replaced(shop: Kept):
    async with shop.kept() as (worker, keeper):
        first = keeper.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)

        await eventually(lambda: keeper.pid not in (None, first), within=2.0)

        assert worker.stats.lost_keepers == 1


@pytest.mark.slow
async def test_keepers_that_die_at_once_are_not_started_over_and_over(shop: Kept):
    shop.url = "nosuch://engine"
    async with shop.kept() as (worker, _):
        began = shop.clock.monotonic()

        await eventually(lambda: shop.clock.monotonic() > began + 3)

        assert 1 <= worker.stats.lost_keepers <= 3


async def test_a_worker_that_leaves_takes_its_keeper_with_it(shop: Kept):
    async with shop.kept() as (_, keeper):
        pid = keeper.pid
        assert pid is not None

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def settled(shop: Kept, ids: list[JobId]) -> None:
    async def is_settled() -> bool:
        jobs = [await shop.job(one) for one in ids]
        return all(job.delivery and job.state is not State.RUNNING for job in jobs)

    await eventually(is_settled)
