"""Schedulers as processes on one store, killed and stopped: each due time fires once."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from longshore.core.event import Name, expand
from longshore.core.schedule import CatchUp, Schedule, declared
from longshore.engine import Engine, JobFilter
from longshore.engines import open_engine
from longshore.testing.factories import MILLISECOND, SECOND

PROGRAM = Path(__file__).with_name("scheduler_process.py")
PATIENCE = 30.0

EVERYTHING = Schedule(name="", type="noop", catch_up=CatchUp.ALL, catch_up_limit=1_000)
TENTH = replace(EVERYTHING, every=100 * MILLISECOND)
SECONDLY = replace(EVERYTHING, cron="* * * * * *")
SCHEDULES = [
    *(replace(TENTH, name=f"tenth-{n}", anchor=n * 17 * MILLISECOND) for n in range(5)),
    replace(SECONDLY, name="second-utc"),
    replace(SECONDLY, name="second-berlin", timezone="Europe/Berlin"),
]


class Fleet:
    """Three scheduler processes, whatever happens to them."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._members = [self._start() for _ in range(3)]

    def kill_one(self, rng: random.Random) -> None:
        """kill -9, and another takes its place."""
        place = rng.randrange(3)
        self._end(self._members[place])
        self._members[place] = self._start()

    @contextmanager
    def one_stopped(self, rng: random.Random) -> Iterator[None]:
        member = rng.choice(self._members)
        os.kill(member.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(member.pid, signal.SIGCONT)

    def drain(self) -> list[int]:
        """Ask all to end in peace; their exit codes."""
        for member in self._members:
            # Before its first word a process does not listen to signals yet.
            assert member.stdout is not None
            member.stdout.readline()
            member.terminate()
        return [member.wait(PATIENCE) for member in self._members]

    def end(self) -> None:
        for member in self._members:
            self._end(member)

    def _end(self, member: "subprocess.Popen[bytes]") -> None:
        with member:
            member.kill()

    def _start(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, str(PROGRAM), self._url]
        return subprocess.Popen(command, stdout=subprocess.PIPE)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
async def engine(url: str) -> AsyncIterator[Engine]:
    engine = open_engine(url)
    await engine.migrate()
    yield engine
    await engine.close()


@pytest.mark.slow
async def test_schedulers_killed_and_stopped_fire_each_due_time_once(engine: Engine, url: str):
    await harass(engine, url, rounds=3)


@pytest.mark.prove
async def test_a_minute_of_kills_and_stops_doubles_and_misses_nothing(engine: Engine, url: str):
    await harass(engine, url, rounds=30)


async def harass(engine: Engine, url: str, *, rounds: int) -> None:
    rng = random.Random(rounds)
    begun = await engine.now()
    for schedule in SCHEDULES:
        await engine.put_schedule(declared(schedule, now=begun))
    fleet = Fleet(url)
    try:
        for _ in range(rounds):
            await asyncio.sleep(rng.uniform(0.3, 1.0))
            fleet.kill_one(rng)
            with fleet.one_stopped(rng):
                await asyncio.sleep(rng.uniform(0.3, 1.5))
        await eventually_caught_up(engine, await engine.now())
        exit_codes = fleet.drain()
    finally:
        fleet.end()

    assert exit_codes == [0, 0, 0]
    fired = await due_times_fired(engine)
    for schedule in await engine.schedules():
        assert fired[schedule.name] == grid(schedule, begun)
    assert await jobs_held(engine) == sum(len(times) for times in fired.values())


def grid(schedule: Schedule, begun: int) -> list[int]:
    """Every due time from the declaration to where the schedule stands now."""
    assert schedule.next_due is not None
    step = schedule.every or SECOND
    first = begun - (begun - schedule.anchor) % step + step
    return list(range(first, schedule.next_due, step))


async def eventually_caught_up(engine: Engine, moment: int) -> None:
    for _ in range(int(PATIENCE / 0.1)):
        if all((one.next_due or 0) > moment for one in await engine.schedules()):
            return
        await asyncio.sleep(0.1)
    pytest.fail("the schedules were not caught up in time")


async def due_times_fired(engine: Engine) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {schedule.name: [] for schedule in SCHEDULES}
    position = 0
    while batches := await engine.events(after=position, limit=1_000):
        position = batches[-1].position
        for event in (event for batch in batches for event in expand(batch)):
            due = event.details.get("due")
            if event.name is Name.SCHEDULE_FIRED and isinstance(due, int):
                found[str(event.details["schedule"])].append(due)
    return found


async def jobs_held(engine: Engine) -> int:
    count, cursor = 0, None
    while True:
        page = await engine.find(JobFilter(type="noop"), limit=500, cursor=cursor)
        count += len(page.jobs)
        cursor = page.cursor
        if cursor is None:
            return count
