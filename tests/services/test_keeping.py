"""A keeper's watch over a real process, with an engine in memory and a clock of its own."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from longshore.core import settle
from longshore.core.job import Claim, Job, Settlement
from longshore.core.state import State
from longshore.engine import Keeper
from longshore.engines import open_engine
from longshore.keeper.ward import Ward
from longshore.keeper.watch import Charge, TimedKeeper, Watch
from longshore.runtime.clock import ManualClock
from longshore.runtime.flight import CELL_BYTES, FlightRecord, begin, open_memory
from longshore.testing.factories import SECOND, a_failure, a_job
from longshore.testing.flaky import FlakyEngine
from longshore.testing.harness import eventually
from longshore.testing.manual import ManualWorker, a_worker

LEASE = 0.6
LEASE_US = int(LEASE * SECOND)
NEVER = float("inf")
STEP = 100_000
"""Well within a third of the lease, so that no renewal comes too late on the moved clock."""


class Post:
    """A worker that is a sleeping process, its record, and the keeper that watches it."""

    def __init__(self, engine: FlakyEngine, clock: ManualClock, worker: ManualWorker) -> None:
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
            Charge(worker="worker-1", lease=LEASE),
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
        return await self.engine.as_engine.get(claim.id)

    def kill(self) -> None:
        self.process.kill()

    async def close(self) -> None:
        self.process.kill()
        self.process.wait(10)
        self.keeping.cancel()
        await asyncio.wait([self.keeping])
        os.close(self._descriptor)
        os.close(self._memory)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def post(clock: ManualClock) -> AsyncIterator[Post]:
    engine = open_engine("sqlite://:memory:", clock=clock)
    await engine.migrate()
    flaky = FlakyEngine(engine)
    post = Post(flaky, clock, await a_worker(flaky.as_engine, lease=LEASE_US))
    yield post
    await post.close()
    await engine.close()


async def claims(post: Post, count: int, **options: Any) -> list[Claim]:
    await post.engine.as_engine.submit([a_job(**options) for _ in range(count)])
    return await post.worker.claim(count)


def numbers(job: Job) -> tuple[State, int, int, int, int]:
    return (job.state, job.attempt, job.failures, job.crashes, job.lapses)


async def test_a_lease_is_kept_while_the_worker_does_nothing(post: Post):
    (claim,) = await claims(post, 1)

    await post.pass_time(5 * LEASE_US)

    assert (await post.worker.succeed(claim)).stale == []
    assert not post.keeping.done()


async def test_the_worker_can_see_how_far_its_lease_was_kept(post: Post):
    await post.pass_time(LEASE_US)

    kept = post.record.renewed(post.worker.session.token)
    assert 0 <= post.clock.monotonic() - kept <= LEASE / 2
    assert post.record.renewed(12_345) == 0.0


async def test_a_death_is_reported_and_each_job_gets_what_became_of_it(post: Post):
    done, failed, running, waiting = await claims(post, 4)
    cells = [post.begin(claim) for claim in (done, failed, running)]
    post.clock.advance(5)
    now = post.clock.monotonic()
    post.record.ends[cells[0]] = now
    post.record.end(cells[1], now, a_retry(failed))
    await post.look()

    post.kill()
    await post.reported()

    assert numbers(await post.job(done)) == (State.SUCCEEDED, 1, 0, 0, 0)
    assert numbers(await post.job(failed)) == (State.SCHEDULED, 1, 1, 0, 0)
    assert numbers(await post.job(running)) == (State.READY, 1, 0, 1, 0)
    assert numbers(await post.job(waiting)) == (State.READY, 0, 0, 0, 0)
    assert await post.engine.as_engine.sessions() == []


async def test_what_an_incomplete_record_leaves_out_is_charged_a_crash(post: Post):
    (claim,) = await claims(post, 1)
    post.record.spare()

    post.kill()
    await post.reported()

    assert numbers(await post.job(claim)) == (State.READY, 1, 0, 1, 0)


async def test_times_in_the_record_are_told_on_the_engines_clock(post: Post):
    (claim,) = await claims(post, 1)
    await post.kept()
    began = post.clock.now()
    cell = post.begin(claim)
    await post.pass_time(LEASE_US)
    post.record.ends[cell] = post.clock.monotonic()
    ended = post.clock.now()

    post.kill()
    await post.reported()

    job = await post.job(claim)
    assert job.started_at == pytest.approx(began, abs=10)
    assert job.finished_at == pytest.approx(ended, abs=10)


async def test_a_stopped_worker_loses_its_lease(post: Post):
    await post.kept()
    os.kill(post.process.pid, signal.SIGSTOP)
    await eventually(lambda: is_stopped(post.process.pid))
    for _ in range(4):
        post.clock.advance(LEASE_US // 2)
        await post.look()

    lapsed = await post.engine.as_engine.lapsed(grace=0, limit=10)

    assert [one.token for one in lapsed] == [post.worker.session.token]


async def test_a_worker_that_was_resumed_too_late_is_not_revived(post: Post):
    await post.kept()
    os.kill(post.process.pid, signal.SIGSTOP)
    await eventually(lambda: is_stopped(post.process.pid))
    post.clock.advance(2 * LEASE_US)
    kept = post.record.renewed(post.worker.session.token)

    os.kill(post.process.pid, signal.SIGCONT)
    await post.tried()
    await post.look()

    assert post.record.renewed(post.worker.session.token) == kept
    assert len(await post.engine.as_engine.lapsed(grace=0, limit=10)) == 1


async def test_a_worker_that_was_stopped_briefly_keeps_its_lease(post: Post):
    (claim,) = await claims(post, 1)
    await post.kept()
    os.kill(post.process.pid, signal.SIGSTOP)
    await eventually(lambda: is_stopped(post.process.pid))
    post.clock.advance(LEASE_US // 2)
    await post.look()

    os.kill(post.process.pid, signal.SIGCONT)
    await post.pass_time(3 * LEASE_US)

    assert (await post.worker.succeed(claim)).stale == []


async def test_a_renewal_that_failed_is_tried_again_in_time(post: Post):
    (claim,) = await claims(post, 1)
    await post.kept()

    for _ in range(4):
        with post.engine.outage():
            post.clock.advance(LEASE_US // 2)
            await post.tried()
        await post.pass_time(LEASE_US // 3)

    assert (await post.worker.succeed(claim)).stale == []


async def test_a_death_during_an_outage_is_reported_when_the_engine_is_back(post: Post):
    (claim,) = await claims(post, 1)
    post.begin(claim)

    with post.engine.outage():
        post.kill()
        await eventually(lambda: post.engine.calls.count("held") >= 3)
        was_running = not post.keeping.done()
    await post.reported()

    assert was_running
    assert numbers(await post.job(claim)) == (State.READY, 1, 0, 1, 0)


@pytest.mark.parametrize("call", ["held", "bury"])
async def test_a_lost_answer_does_no_harm(post: Post, call: str):
    first, second = await claims(post, 2)
    post.record.ends[post.begin(first)] = post.clock.monotonic() + 0.001
    post.begin(second)
    post.engine.lose_answers(1, of=[call])

    post.kill()
    await post.reported()

    assert numbers(await post.job(first)) == (State.SUCCEEDED, 1, 0, 0, 0)
    assert numbers(await post.job(second)) == (State.READY, 1, 0, 1, 0)


async def test_a_session_that_others_buried_is_left_alone(post: Post):
    (claim,) = await claims(post, 1)
    post.begin(claim)
    await cast("Keeper", post.engine).bury(post.worker.session.token, [])

    post.kill()
    await post.reported()

    assert numbers(await post.job(claim)) == (State.READY, 0, 0, 0, 0)


async def test_a_keeper_leaves_when_its_worker_has_no_session(post: Post):
    post.watch.dismiss()
    await post.look()
    is_dismissed_too_soon = post.keeping.done()
    await post.worker.session.close()
    post.record.token = 0

    post.watch.dismiss()
    await post.reported()

    assert not is_dismissed_too_soon
    assert post.process.poll() is None


async def test_what_a_worker_that_left_could_not_end_is_buried(post: Post):
    (claim,) = await claims(post, 1)
    post.record.leave()

    post.watch.dismiss()
    await post.reported()

    assert numbers(await post.job(claim)) == (State.READY, 0, 0, 0, 0)


async def test_the_next_session_is_kept_too(post: Post):
    await post.engine.as_engine.submit([a_job()])
    await cast("Keeper", post.engine).bury(post.worker.session.token, [])
    await post.pass_time(LEASE_US)
    again = await a_worker(post.engine.as_engine, lease=LEASE_US)
    post.record.token = again.session.token
    (claim,) = await again.claim()

    await post.look()
    await post.pass_time(3 * LEASE_US)

    assert (await again.succeed(claim)).stale == []


async def test_a_worker_that_stands_still_past_a_timeout_is_ended_and_the_job_charged(
    post: Post,
):
    stuck, neighbour = await claims(post, 2)
    post.begin(stuck, deadline=post.clock.monotonic() + 1)
    post.begin(neighbour)

    await post.stand_still(12 * SECOND)
    await post.reported()

    assert post.process.wait(10) == -signal.SIGKILL
    job = await post.job(stuck)
    assert numbers(job) == (State.SCHEDULED, 1, 1, 0, 0)
    assert job.failure is not None
    assert job.failure.kind == "timeout"
    assert numbers(await post.job(neighbour)) == (State.READY, 1, 0, 1, 0)


async def test_a_job_past_its_time_whose_worker_others_killed_is_not_charged_a_timeout(
    post: Post,
):
    (claim,) = await claims(post, 1)
    post.begin(claim, deadline=post.clock.monotonic() + 0.1)
    await post.pass_time(LEASE_US)

    post.kill()
    await post.reported()

    assert numbers(await post.job(claim)) == (State.READY, 1, 0, 1, 0)


@pytest.mark.parametrize("case", ["in time", "with a pulse", "over", "stopped"])
async def test_a_worker_is_not_ended(post: Post, case: str):
    (claim,) = await claims(post, 1)
    deadline = NEVER if case == "in time" else post.clock.monotonic() + 1
    cell = post.begin(claim, deadline=deadline)
    if case == "over":
        post.record.ends[cell] = post.clock.monotonic() + 0.5
    if case == "stopped":
        os.kill(post.process.pid, signal.SIGSTOP)
        await eventually(lambda: is_stopped(post.process.pid))

    if case == "with a pulse":
        await post.pass_time(14 * SECOND)
    else:
        await post.stand_still(14 * SECOND)
    if case == "stopped":
        # Resumed, it has not had the time for a pulse.
        os.kill(post.process.pid, signal.SIGCONT)
        for _ in range(3):
            post.clock.advance(SECOND)
            await post.look()

    assert post.process.poll() is None
    assert not post.keeping.done()


def a_retry(claim: Claim) -> Settlement:
    return settle.failed(claim, a_failure(), delay=SECOND, started_at=1, finished_at=2)


def is_stopped(pid: int) -> bool:
    with open(f"/proc/{pid}/stat") as status:
        return status.read().rpartition(")")[2].split()[0] == "T"


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="keepers are for Linux")
