"""A keeper's post: a real process to watch, an engine in memory, and a clock that is moved."""

import asyncio
import os
import random
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from longshore.core.job import Claim, Job
from longshore.core.state import State
from longshore.engines import open_engine
from longshore.keeper.process import Ward
from longshore.keeper.watch import Charge, TimedKeeper, Watch
from longshore.runtime.clock import ManualClock
from longshore.runtime.flight import CELL_BYTES, FlightRecord, begin, open_memory
from longshore.testing.factories import SECOND, a_job
from longshore.testing.flaky import FlakyEngine
from longshore.testing.harness import eventually
from longshore.testing.manual import ManualWorker, a_worker

__all__ = ["LEASE", "LEASE_US", "NEVER", "Post", "claims", "is_stopped", "numbers", "open_post"]

LEASE = 0.6
LEASE_US = int(LEASE * SECOND)
NEVER = float("inf")
STEP = 100_000
"""Well within a third of the lease, so that no renewal comes too late on the moved clock."""


class Post:
    """A worker that is a sleeping process, its record, and the keeper that watches it."""

    def __init__(
        self,
        engine: FlakyEngine,
        clock: ManualClock,
        worker: ManualWorker,
        **charge: Any,
    ) -> None:
        self.engine = engine
        self.clock = clock
        self.worker = worker
        self._memory = open_memory(8)
        self.record = FlightRecord(self._memory, 8)
        self.record.token = worker.session.token
        self.record.beat(clock.monotonic())
        self.process = subprocess.Popen(["sleep", "600"])
        self._descriptor = os.pidfd_open(self.process.pid)
        self.watch = Watch(
            cast("TimedKeeper", engine),
            FlightRecord(self._memory, 8),
            Ward(self._descriptor),
            Charge(worker="worker-1", lease=LEASE, **charge),
            clock=clock,
            rng=random.Random(1),
        )
        self.keeping = asyncio.create_task(self.watch.run())

    def begin(self, claim: Claim, *, deadline: float = NEVER) -> int:
        cell, now = self.record.free.pop(), self.clock.monotonic()
        at = cell * CELL_BYTES
        begin(self.record.cells, at, now, claim.handle, claim.delivery, deadline)
        return cell

    async def kept(self) -> None:
        """Return when the keeper has renewed the lease for the first time."""
        token = self.worker.session.token
        await eventually(lambda: self.record.renewed(token), every=0.002)

    async def tried(self, more: int = 1) -> None:
        """Return when the keeper has tried to renew so many times more."""
        before = self.engine.calls.count("renew")

        def has_tried() -> bool:
            self.watch.nudge()
            return self.engine.calls.count("renew") >= before + more

        await eventually(has_tried, every=0.002)

    async def pass_time(self, microseconds: int) -> None:
        """Let time pass on the keeper's clock, with the worker's pulse, renewed all along."""
        for _ in range(microseconds // STEP):
            self.clock.advance(STEP)
            self.record.beat(self.clock.monotonic())
            await self.look()

    async def stand_still(self, microseconds: int) -> None:
        """Let time pass without a pulse, as far as the keeper lets it."""
        for _ in range(microseconds // STEP):
            self.clock.advance(STEP)
            await self.look()

    async def look(self) -> None:
        """Return when the keeper has looked after the worker, or ended it."""
        self.clock.advance(1)
        now = self.clock.monotonic()
        self.watch.nudge()

        def has_looked() -> bool:
            return self.record.keeper_pulse >= now or self.process.poll() is not None

        await eventually(has_looked, every=0.0005)

    async def reported(self) -> None:
        async with asyncio.timeout(20):
            await self.keeping

    async def job(self, claim: Claim) -> Job:
        return await self.engine.get(claim.id)

    def kill(self) -> None:
        self.process.kill()

    async def close(self) -> None:
        self.process.kill()
        self.process.wait(10)
        self.keeping.cancel()
        await asyncio.wait([self.keeping])
        os.close(self._descriptor)
        os.close(self._memory)


@asynccontextmanager
async def open_post(**charge: Any) -> AsyncIterator[Post]:
    clock = ManualClock()
    engine = open_engine("sqlite://:memory:", clock=clock)
    await engine.migrate()
    flaky = FlakyEngine(engine)
    worker = await a_worker(flaky, types=("noop", "report"), lease=LEASE_US)
    post = Post(flaky, clock, worker, **charge)
    try:
        yield post
    finally:
        await post.close()
        await engine.close()


async def claims(post: Post, count: int, **options: Any) -> list[Claim]:
    await post.engine.submit([a_job(**options) for _ in range(count)])
    return await post.worker.claim(count)


def numbers(job: Job) -> tuple[State, int, int, int, int]:
    return (job.state, job.attempt, job.failures, job.crashes, job.lapses)


def is_stopped(pid: int) -> bool:
    with open(f"/proc/{pid}/stat") as status:
        return status.read().rpartition(")")[2].split()[0] == "T"
