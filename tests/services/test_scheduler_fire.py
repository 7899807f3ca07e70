"""The firer: each due time fires once, whoever looks, whatever the clock does."""

import asyncio
import logging
import random
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from longshore.contract import Engine, JobFilter
from longshore.contract.forwarding import ForwardingEngine
from longshore.core.event import Name, expand
from longshore.core.job import Submitted
from longshore.core.limit_settings import Layer, QueueSettings
from longshore.core.schedule import CatchUp, Firing, Overlap, Schedule, decide, declared
from longshore.core.state import State
from longshore.engines import open_engine
from longshore.errors import BrokenRecordError, EngineUnavailableError
from longshore.records import queue_settings, schedules
from longshore.runtime.clock import ManualClock
from longshore.runtime.ids import IdSource
from longshore.scheduler.fire import Firer
from longshore.testing.factories import (
    DAY,
    HOUR,
    MILLISECOND,
    MINUTE,
    SECOND,
    a_job,
    a_schedule,
)
from longshore.testing.flaky import FlakyEngine
from longshore.testing.manual import a_worker

Forget = Callable[[], None]
START = 1_767_225_600_000_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
async def engine(clock: ManualClock) -> AsyncIterator[Engine]:
    engine = open_engine("sqlite://:memory:", clock=clock)
    await engine.migrate()
    yield engine
    await engine.close()


@pytest.fixture
async def on_mars(clock: ManualClock, tmp_path: Path) -> AsyncIterator[tuple[Engine, Forget]]:
    """An engine, and a call after which the time zone of its schedules in Berlin is unknown.

    As it is to a process with an older time zone database than that of who stored them.
    """
    engine = open_engine(f"sqlite:///{tmp_path}/jobs.db", clock=clock)
    await engine.migrate()

    def forget() -> None:
        with closing(sqlite3.connect(tmp_path / "jobs.db")) as db, db:
            words = "replace(body, 'Europe/Berlin', 'Mars/Base') where kind = 'schedule'"
            assert db.execute(f"update longshore_record set body = {words}").rowcount

    yield engine, forget
    await engine.close()


def a_firer(engine: Any, clock: ManualClock) -> Firer:
    return Firer(engine, IdSource(clock), clock=clock, rng=random.Random(7))


async def declare(engine: Engine, **changes: object) -> Schedule:
    now = await engine.now()
    schedule = declared(a_schedule(**changes), now=now)
    await schedules.put(engine, schedule)
    return schedule


async def fired(engine: Engine, name: str = "nightly") -> list[int]:
    """Every due time of the schedule that fired a job, in order of commit."""
    return [
        due
        for batch in await engine.events(after=0, limit=100_000)
        for event in expand(batch)
        if event.name is Name.SCHEDULE_FIRED and event.details["schedule"] == name
        if isinstance(due := event.details["due"], int)
    ]


async def job_count(engine: Engine) -> int:
    return sum(counts.ready + counts.scheduled for counts in await engine.counts())


async def test_a_due_time_becomes_a_job_of_the_schedules_kind(
    engine: Engine, clock: ManualClock
):
    schedule = await declare(engine, queue="reports", payload=b'{"kind":"full"}')
    firer = a_firer(engine, clock)

    await firer.tick()
    early = await fired(engine)
    clock.advance(MINUTE)
    await firer.tick()

    page = await engine.find(JobFilter(queue="reports"), limit=10)
    assert early == []
    assert await fired(engine) == [schedule.next_due]
    assert [(job.payload, job.state, job.run_at) for job in page.jobs] == [
        (b'{"kind":"full"}', State.READY, schedule.next_due)
    ]


async def test_a_schedule_waits_for_room_in_its_queue_and_holds_up_no_other(
    engine: Engine, clock: ManualClock, caplog: pytest.LogCaptureFixture
):
    await queue_settings.put(engine, "full", Layer.OVERRIDDEN, QueueSettings(max_depth=1))
    await engine.submit([a_job(queue="full")])
    waits = await declare(engine, name="waits", queue="full")
    await declare(engine, name="goes")
    firer = a_firer(engine, clock)
    clock.advance(MINUTE)

    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            await firer.tick()
    meanwhile = (await fired(engine, "waits"), len(await fired(engine, "goes")))
    await queue_settings.put(engine, "full", Layer.OVERRIDDEN, QueueSettings())
    await firer.tick()

    assert meanwhile == ([], 1)
    assert await fired(engine, "waits") == [waits.next_due]
    warnings = [one.message for one in caplog.records if one.levelno == logging.WARNING]
    assert warnings == ["schedule not fired"]


async def test_many_firers_at_once_fire_each_due_time_once(engine: Engine, clock: ManualClock):
    for number in range(20):
        await declare(engine, name=f"s{number}", every=SECOND, catch_up=CatchUp.ALL)
    firers = [a_firer(engine, clock) for _ in range(3)]
    chance = random.Random(11)

    for _ in range(50):
        clock.advance(chance.randrange(2 * SECOND))
        await asyncio.gather(*(firer.tick() for firer in firers if chance.random() < 0.7))
    clock.advance(SECOND - clock.now() % SECOND)
    await firers[0].tick()

    expected = list(range(START + SECOND, clock.now() + 1, SECOND))
    assert len(expected) > 30
    for number in range(20):
        assert await fired(engine, f"s{number}") == expected
    assert await job_count(engine) == 20 * len(expected)


async def test_a_firer_resumed_with_an_old_view_fires_nothing_twice(
    engine: Engine, clock: ManualClock
):
    """Split brain: one firer read what is due, stood still, and acts an hour later."""
    await declare(engine)
    clock.advance(MINUTE)
    (old_view,) = await schedules.due(engine, limit=10)

    fresh = a_firer(engine, clock)
    await fresh.tick()
    clock.advance(HOUR)
    await fresh.tick()
    before = await fired(engine)
    late_answer = await engine.fire(decide(old_view, IdSource(clock).make))

    assert late_answer == []
    assert await fired(engine) == before
    assert max(Counter(before).values()) == 1


async def test_a_lost_answer_fires_nothing_twice(engine: Engine, clock: ManualClock):
    await declare(engine)
    line = FlakyEngine(engine)
    firer = a_firer(line, clock)
    clock.advance(MINUTE)

    line.lose_answers(of={"fire"})
    with pytest.raises(EngineUnavailableError):
        await firer.tick()
    await firer.tick()

    assert await fired(engine) == [START + MINUTE]
    assert await job_count(engine) == 1


async def test_an_engine_that_fails_leaves_no_cancellation_with_who_fires(
    engine: Engine, clock: ManualClock
):
    """Python 3.11.2 would end whatever waits there next, for good."""
    for name in ("a", "b", "c"):
        await declare(engine, name=name)
    line = FlakyEngine(engine)
    firer = a_firer(line, clock)
    clock.advance(MINUTE)
    line.lose_answers(of={"fire"})

    with pytest.raises(EngineUnavailableError):
        await firer.tick()

    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_schedule_put_back_to_a_due_time_that_fired_does_not_fire_it_again(
    engine: Engine, clock: ManualClock
):
    """A deployment read the schedule before a firing and writes it after."""
    schedule = await declare(engine)
    firer = a_firer(engine, clock)
    clock.advance(MINUTE)
    await firer.tick()

    await schedules.put(engine, schedule)
    await firer.tick()
    clock.advance(MINUTE)
    await firer.tick()

    assert await fired(engine) == [START + MINUTE, START + 2 * MINUTE]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (CatchUp.SKIP, []),
        (CatchUp.LATEST, [START + DAY]),
        (CatchUp.ALL, [START + DAY - back * HOUR for back in range(23, -1, -1)]),
    ],
)
async def test_a_day_without_schedulers_is_caught_up_by_policy_and_only_once(
    engine: Engine, clock: ManualClock, policy: CatchUp, expected: list[int]
):
    await declare(engine, every=HOUR, catch_up=policy)
    firers = [a_firer(engine, clock) for _ in range(2)]

    clock.advance(DAY + 10 * MINUTE)
    await asyncio.gather(*(firer.tick() for firer in firers))
    caught_up = await fired(engine)
    clock.advance(50 * MINUTE)
    await asyncio.gather(*(firer.tick() for firer in firers))

    assert caught_up == expected
    assert await fired(engine) == [*expected, START + DAY + HOUR]


async def test_all_is_capped_after_a_long_downtime(engine: Engine, clock: ManualClock):
    await declare(engine, every=SECOND, catch_up=CatchUp.ALL, catch_up_limit=5)

    clock.advance(DAY)
    await a_firer(engine, clock).tick()

    assert await fired(engine) == [START + DAY - back * SECOND for back in range(4, -1, -1)]


@pytest.mark.parametrize("step", [5 * MINUTE, -5 * MINUTE, HOUR, -HOUR])
async def test_a_step_of_the_clock_doubles_no_due_time_and_makes_no_burst(
    engine: Engine, clock: ManualClock, step: int
):
    await declare(engine, every=10 * SECOND)
    firer = a_firer(engine, clock)
    for _ in range(6):
        clock.advance(10 * SECOND)
        await firer.tick()
    before = await fired(engine)

    clock.step(step)
    await firer.tick()
    jumped = await fired(engine)
    clock.step(-step)
    for _ in range(500):
        clock.advance(10 * SECOND)
        await firer.tick()

    assert len(before) == 6
    assert len(jumped) - len(before) <= 1
    assert max(Counter(await fired(engine)).values()) == 1
    assert (await fired(engine))[-1] == clock.now()


async def test_a_paused_schedule_fires_nothing(engine: Engine, clock: ManualClock):
    schedule = await declare(engine)
    await schedules.put(engine, replace(schedule, is_paused=True))

    clock.advance(HOUR)
    await a_firer(engine, clock).tick()

    assert await fired(engine) == []


async def test_overlap_skip_waits_for_the_last_job_to_finish(
    engine: Engine, clock: ManualClock
):
    await declare(engine, overlap=Overlap.SKIP)
    firer = a_firer(engine, clock)
    worker = await a_worker(engine, lease=DAY)

    clock.advance(MINUTE)
    await firer.tick()
    (claim,) = await worker.claim()
    clock.advance(MINUTE)
    await firer.tick()
    await worker.succeed(claim)
    clock.advance(MINUTE)
    await firer.tick()

    assert await fired(engine) == [START + MINUTE, START + 3 * MINUTE]


async def test_jitter_delays_the_job_and_not_the_firing(engine: Engine, clock: ManualClock):
    await declare(engine, jitter=30 * SECOND)
    clock.advance(MINUTE)

    await a_firer(engine, clock).tick()

    (job,) = (await engine.find(JobFilter(), limit=10)).jobs
    assert await fired(engine) == [START + MINUTE]
    assert job.state is State.SCHEDULED
    assert START + MINUTE < job.run_at < START + MINUTE + 30 * SECOND


async def test_a_schedule_that_cannot_fire_does_not_hold_up_the_others(
    on_mars: tuple[Engine, Forget], clock: ManualClock, caplog: pytest.LogCaptureFixture
):
    engine, forget = on_mars
    unknown = a_schedule(name="a", every=None, cron="@daily", timezone="Europe/Berlin")
    await schedules.put(engine, replace(unknown, next_due=START))
    forget()
    await declare(engine, name="b")
    firer = a_firer(engine, clock)

    clock.advance(MINUTE)
    await firer.tick()
    await firer.tick()

    assert await fired(engine, "b") == [START + MINUTE]
    warned = [one.message for one in caplog.records if one.levelno >= logging.WARNING]
    assert warned == ["schedule not fired"]


async def test_a_crowd_of_schedules_that_cannot_fire_does_not_hold_up_the_others(
    on_mars: tuple[Engine, Forget], clock: ManualClock
):
    engine, forget = on_mars
    unknown = a_schedule(every=None, cron="@daily", timezone="Europe/Berlin")
    for number in range(250):
        await schedules.put(engine, replace(unknown, name=f"a{number}", next_due=START))
    forget()
    await declare(engine, name="b")
    firer = a_firer(engine, clock)
    clock.advance(MINUTE)

    delays = [await firer.tick() for _ in range(3)]

    assert await fired(engine, "b") == [START + MINUTE]
    assert [delay > 0.0 for delay in delays] == [False, False, True]


class Choosy(ForwardingEngine):
    """An engine that fires every schedule but those that it cannot."""

    def __init__(self, engine: Engine, unfit: frozenset[str]) -> None:
        super().__init__(engine)
        self._unfit = unfit

    async def fire(self, firing: Firing) -> list[Submitted]:
        if firing.name in self._unfit:
            raise BrokenRecordError("queue", "q", "no JSON")
        return await self._inner.fire(firing)


async def test_schedules_that_the_store_cannot_fire_do_not_hold_up_the_others(
    engine: Engine, clock: ManualClock
):
    names = [f"a{number}" for number in range(150)]
    for name in [*names, "b"]:
        await declare(engine, name=name)
    firer = a_firer(cast("Engine", Choosy(engine, frozenset(names))), clock)
    clock.advance(MINUTE)

    for _ in range(3):
        await firer.tick()

    assert await fired(engine, "b") == [START + MINUTE]


@pytest.mark.parametrize(("policy", "fires"), [(CatchUp.SKIP, 0), (CatchUp.LATEST, 1)])
async def test_due_times_that_the_policy_passes_over_are_told_to_the_operator(
    engine: Engine,
    clock: ManualClock,
    policy: CatchUp,
    fires: int,
    caplog: pytest.LogCaptureFixture,
):
    await declare(engine, every=HOUR, catch_up=policy)
    clock.advance(5 * HOUR + 2 * MINUTE)

    await a_firer(engine, clock).tick()
    clock.advance(58 * MINUTE)
    await a_firer(engine, clock).tick()

    (told,) = [record for record in caplog.records if record.message == "due times missed"]
    assert (told.__dict__["since"], told.__dict__["fires"]) == (START + HOUR, fires)


@pytest.mark.parametrize("step", [300 * MILLISECOND, HOUR])
async def test_a_wall_clock_that_is_wrong_does_not_move_its_looks(
    engine: Engine, clock: ManualClock, step: int
):
    """Its own clock is ahead of the engine's, and is set while it waits."""
    own = ManualClock(START + 700 * MILLISECOND)
    firer = Firer(engine, IdSource(own), clock=own, rng=random.Random(7))
    clock.advance(300 * MILLISECOND)

    first = await firer.tick()
    own.step(step)
    second = await firer.tick()

    assert 0.7 <= first <= 0.72
    assert 0.7 <= second <= 0.72


async def test_it_looks_again_on_the_whole_second(engine: Engine, clock: ManualClock):
    clock.advance(300 * MILLISECOND)

    assert 0.7 <= await a_firer(engine, clock).tick() <= 0.72


async def test_it_looks_again_when_a_short_interval_is_due(engine: Engine, clock: ManualClock):
    await declare(engine, every=150 * MILLISECOND)
    firer = a_firer(engine, clock)
    clock.advance(200 * MILLISECOND)

    assert 0.1 <= await firer.tick() <= 0.12


async def test_what_came_due_while_it_fired_is_looked_for_at_once(
    engine: Engine, clock: ManualClock
):
    """An engine that takes longer to fire than the interval lasts."""
    await declare(engine, every=100 * MILLISECOND)
    firer = a_firer(SlowEngine(engine, clock), clock)
    clock.advance(100 * MILLISECOND)

    first = await firer.tick()
    second = await firer.tick()

    assert first <= 0.02
    assert second <= 0.02
    assert await fired(engine) == [START + n * 100 * MILLISECOND for n in (1, 2, 3)]


class SlowEngine(ForwardingEngine):
    """Each firing takes a quarter of a second."""

    def __init__(self, engine: Engine, clock: ManualClock) -> None:
        super().__init__(engine)
        self._clock = clock

    async def fire(self, firing: Firing) -> object:
        self._clock.advance(250 * MILLISECOND)
        return await self._inner.fire(firing)


async def test_it_goes_on_at_once_while_there_is_more(engine: Engine, clock: ManualClock):
    for number in range(101):
        await declare(engine, name=f"s{number:03}")
    firer = a_firer(engine, clock)
    clock.advance(MINUTE)

    first, second = await firer.tick(), await firer.tick()

    assert first == 0.0
    assert second > 0.0
    assert await job_count(engine) == 101
