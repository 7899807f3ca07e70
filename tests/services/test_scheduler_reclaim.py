"""The reclaimer: a vanished worker's jobs run elsewhere, a living worker keeps its own."""

from collections.abc import AsyncIterator, Sequence
from typing import cast

import pytest

from longshore.contract import Engine, Lapsed
from longshore.contract.forwarding import ForwardingEngine
from longshore.core.job import NewJob, Settlement
from longshore.core.state import State
from longshore.engines import open_engine
from longshore.errors import BrokenRecordError, EngineUnavailableError
from longshore.runtime.clock import ManualClock
from longshore.scheduler.reclaim import Reclaimer, TimedSteward
from longshore.testing.factories import HOUR, SECOND, a_job
from longshore.testing.flaky import FlakyEngine
from longshore.testing.manual import LEASE, ManualWorker, a_worker

GRACE = 2 * SECOND


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def engine(clock: ManualClock) -> AsyncIterator[Engine]:
    engine = open_engine("sqlite://:memory:", clock=clock)
    await engine.migrate()
    yield engine
    await engine.close()


async def a_running_job(engine: Engine) -> tuple[ManualWorker, NewJob]:
    job = a_job()
    await engine.submit([job])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await worker.start(claim)
    return worker, job


async def tick_for(reclaimer: Reclaimer, clock: ManualClock, microseconds: int) -> None:
    """Let time pass as a beat would: a tick every second."""
    for _ in range(microseconds // SECOND):
        clock.advance(SECOND)
        await reclaimer.tick()


async def test_a_job_of_a_vanished_worker_runs_again_after_lease_and_grace(
    engine: Engine, clock: ManualClock
):
    _, job = await a_running_job(engine)
    reclaimer = Reclaimer(engine, lease=LEASE, clock=clock)

    await tick_for(reclaimer, clock, LEASE + GRACE - SECOND)
    before = await engine.get(job.id)
    await tick_for(reclaimer, clock, SECOND)
    after = await engine.get(job.id)

    assert before.state is State.RUNNING
    assert (after.state, after.crashes, after.failures) == (State.READY, 1, 0)


async def test_a_worker_that_renews_keeps_its_job(engine: Engine, clock: ManualClock):
    worker, job = await a_running_job(engine)
    reclaimer = Reclaimer(engine, lease=LEASE, clock=clock)

    for _ in range(6):
        await tick_for(reclaimer, clock, LEASE // 3)
        await worker.session.renew()

    assert (await engine.get(job.id)).state is State.RUNNING


async def test_many_reclaimers_charge_one_crash(engine: Engine, clock: ManualClock):
    _, job = await a_running_job(engine)
    told: list[int] = []
    reclaimers = [
        Reclaimer(engine, lease=LEASE, clock=clock, on_reclaimed=told.append) for _ in range(3)
    ]

    for _ in range(40):
        clock.advance(SECOND)
        for reclaimer in reclaimers:
            await reclaimer.tick()

    assert told == [1]
    assert (await engine.get(job.id)).crashes == 1


async def test_it_goes_on_at_once_while_there_is_more(engine: Engine, clock: ManualClock):
    for number in range(21):
        await a_worker(engine, name=f"worker-{number}")
    reclaimer = Reclaimer(engine, lease=LEASE, clock=clock)

    clock.advance(LEASE + GRACE)
    delays = [await reclaimer.tick() for _ in range(2)]

    assert delays[0] == 0.0
    assert 0.5 <= delays[1] <= 1.0
    assert (await engine.sessions()).sessions == []


async def test_after_a_pause_of_everything_nobody_is_buried_for_one_lease(
    engine: Engine, clock: ManualClock
):
    _, job = await a_running_job(engine)
    reclaimer = Reclaimer(engine, lease=LEASE, clock=clock)
    await reclaimer.tick()

    clock.advance(60 * SECOND)
    await reclaimer.tick()
    await tick_for(reclaimer, clock, LEASE - SECOND)
    during = (await engine.get(job.id)).state
    await tick_for(reclaimer, clock, SECOND)

    assert during is State.RUNNING
    assert (await engine.get(job.id)).state is State.READY


async def test_a_pause_between_two_burials_puts_off_the_second(
    engine: Engine, clock: ManualClock
):
    jobs = [(await a_running_job(engine))[1] for _ in range(2)]
    reclaimer = Reclaimer(Stumbling(engine, clock), lease=LEASE, clock=clock)

    clock.advance(LEASE + GRACE)
    await reclaimer.tick()
    await reclaimer.tick()

    states = sorted([(await engine.get(job.id)).state for job in jobs])
    assert states == [State.READY, State.RUNNING]


class Stumbling(ForwardingEngine):
    """An engine on a machine that stands still for a minute after each burial."""

    def __init__(self, engine: Engine, clock: ManualClock) -> None:
        super().__init__(engine)
        self._clock = clock

    async def end_session(
        self, token: int, settlements: Sequence[Settlement], *, grace: int | None = None
    ) -> int:
        jobs = await self._inner.end_session(token, settlements, grace=grace)
        self._clock.advance(60 * SECOND)
        return jobs


@pytest.mark.parametrize("is_older_than_the_outage", [True, False])
async def test_after_an_outage_of_the_engine_nobody_is_buried_for_one_lease(
    engine: Engine, clock: ManualClock, is_older_than_the_outage: bool
):
    _, job = await a_running_job(engine)
    line = FlakyEngine(engine)
    reclaimer = Reclaimer(line, lease=LEASE, clock=clock)
    if is_older_than_the_outage:
        await reclaimer.tick()

    with line.outage():
        for _ in range(60):
            clock.advance(SECOND)
            with pytest.raises(EngineUnavailableError):
                await reclaimer.tick()
    await tick_for(reclaimer, clock, LEASE)
    during = (await engine.get(job.id)).state
    await tick_for(reclaimer, clock, SECOND)

    assert during is State.RUNNING
    assert (await engine.get(job.id)).state is State.READY


async def test_after_a_forward_step_of_the_clock_nobody_is_buried_for_one_lease(
    engine: Engine, clock: ManualClock
):
    _, job = await a_running_job(engine)
    reclaimer = Reclaimer(engine, lease=LEASE, clock=clock)
    await reclaimer.tick()

    clock.step(HOUR)
    await tick_for(reclaimer, clock, LEASE)
    during = (await engine.get(job.id)).state
    await tick_for(reclaimer, clock, SECOND)

    assert during is State.RUNNING
    assert (await engine.get(job.id)).state is State.READY


async def test_a_clock_set_back_buries_nobody_who_renews(engine: Engine, clock: ManualClock):
    worker, job = await a_running_job(engine)
    reclaimer = Reclaimer(engine, lease=LEASE, clock=clock)
    await reclaimer.tick()

    clock.step(-HOUR)
    for _ in range(6):
        await tick_for(reclaimer, clock, LEASE // 3)
        await worker.session.renew()

    assert (await engine.get(job.id)).state is State.RUNNING


async def test_a_slow_tick_of_the_beat_is_no_pause(engine: Engine, clock: ManualClock):
    _, job = await a_running_job(engine)
    reclaimer = Reclaimer(engine, lease=LEASE, clock=clock)

    for _ in range(17):
        await reclaimer.tick()
        clock.advance(2 * SECOND)
    await reclaimer.tick()

    assert (await engine.get(job.id)).state is State.READY


class FarSteward:
    """An engine at the end of a link on which each round trip takes half a second."""

    def __init__(self, engine: Engine, clock: ManualClock) -> None:
        self._engine = engine
        self._clock = clock
        self.limits: list[int] = []

    async def expired_sessions(self, *, grace: int, limit: int) -> list[Lapsed]:
        self.limits.append(limit)
        found = await self._engine.expired_sessions(grace=grace, limit=limit)
        self._travel(2 + 8 * len(found))
        return found

    async def now(self) -> int:
        self._travel(1)
        return await self._engine.now()

    async def end_session(
        self, token: int, settlements: Sequence[Settlement], *, grace: int | None = None
    ) -> int:
        self._travel(8)
        return await self._engine.end_session(token, settlements, grace=grace)

    def _travel(self, trips: int) -> None:
        self._clock.advance(trips * SECOND // 2)


async def test_an_engine_whose_every_answer_takes_long_does_not_stand_still(
    engine: Engine, clock: ManualClock
):
    """The jobs of each vanished worker run again, though a look at it takes seconds."""
    jobs = [(await a_running_job(engine))[1] for _ in range(3)]
    far = FarSteward(engine, clock)
    reclaimer = Reclaimer(cast("TimedSteward", far), lease=LEASE, clock=clock)

    await tick_for(reclaimer, clock, LEASE + GRACE)
    await tick_for(reclaimer, clock, 5 * SECOND)

    assert [(await engine.get(job.id)).state for job in jobs] == [State.READY] * 3
    assert far.limits[-1] == 1


async def test_an_engine_whose_every_answer_takes_long_can_stand_still_all_the_same(
    engine: Engine, clock: ManualClock
):
    _, job = await a_running_job(engine)
    far = FarSteward(engine, clock)
    reclaimer = Reclaimer(cast("TimedSteward", far), lease=LEASE, clock=clock)
    await tick_for(reclaimer, clock, 2 * SECOND)

    clock.advance(LEASE + GRACE)
    await reclaimer.tick()

    assert (await engine.get(job.id)).state is State.RUNNING


class Choosy(ForwardingEngine):
    """An engine that reclaims every session but those that it cannot."""

    def __init__(self, engine: Engine, unfit: set[int]) -> None:
        super().__init__(engine)
        self._unfit = unfit

    async def end_session(
        self, token: int, settlements: Sequence[Settlement], *, grace: int | None = None
    ) -> int:
        if token in self._unfit:
            raise BrokenRecordError("queue", "q", "no JSON")
        return await self._inner.end_session(token, settlements, grace=grace)


async def test_sessions_that_cannot_be_reclaimed_do_not_hold_up_the_others(
    engine: Engine, clock: ManualClock
):
    unfit = {(await a_running_job(engine))[0].session.token for _ in range(50)}
    clock.advance(SECOND)
    _, job = await a_running_job(engine)
    choosy = Choosy(engine, unfit)
    reclaimer = Reclaimer(choosy, lease=LEASE, clock=clock)

    await tick_for(reclaimer, clock, LEASE + GRACE + 3 * SECOND)

    assert (await engine.get(job.id)).state is State.READY
    # None of it is tried without a pause.
    assert await reclaimer.tick() > 0
