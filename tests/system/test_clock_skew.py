"""Processes whose clocks are wrong by minutes, and jump: the engine's clock decides.

Everything runs as it does for users: `longshore worker` and `longshore scheduler`, whose wall
clocks are shifted from outside: on a PostgreSQL server whose clock is right, and on a SQLite
file, where the machine's clock is the engine's.
"""

import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from skew_app import DELAYS, QUEUES, RETRY_BASE

from longshore.contract import Engine
from longshore.engines import open_engine
from longshore.testing.harness import eventually
from longshore_lab.skew import Skew, SkewedClock

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
PATIENCE = 30.0
LEASE = "2s"
MINUTES_5 = 300


class Book:
    """What the processes wrote down, by what it was: (seconds on the monotonic clock, name)."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[str, list[tuple[float, str]]]:
        found: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
        for line in self._path.read_text().splitlines() if self._path.exists() else []:
            moment, what, name = line.split()
            found[what].append((float(moment), name))
        return found


class Fleet:
    """Real processes, each with the wall clock it is given."""

    def __init__(self, url: str, lines: Path, stack: ExitStack, **more: str) -> None:
        clean = {name: value for name, value in os.environ.items() if "LONGSHORE" not in name}
        self._environ = {
            **clean,
            "PYTHONPATH": os.pathsep.join([str(HERE), clean.get("PYTHONPATH", "")]),
            "SKEW_LINES": str(lines),
            "LONGSHORE_ENGINE_URL": url,
            "LONGSHORE_APP": "skew_app:app",
            "LONGSHORE_WORKER_LEASE": LEASE,
            **more,
        }
        self._stack = stack

    def start(self, clock: SkewedClock, *words: str) -> "subprocess.Popen[bytes]":
        process = self._stack.enter_context(
            subprocess.Popen(
                [sys.executable, *words],
                env={**self._environ, **clock.environment},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )
        self._stack.callback(process.kill)
        return process


@pytest.fixture
def skew(tmp_path: Path) -> Skew:
    built = Skew.build(tmp_path)
    if built is None:
        pytest.skip("clocks are shifted by a C library, and there is no compiler here")
    return built


@pytest.fixture
async def engine(empty_postgres_url: str) -> AsyncIterator[Engine]:
    engine = open_engine(empty_postgres_url)
    yield engine
    await engine.close()


@contextmanager
def a_fleet(url: str, lines: Path, **more: str) -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield Fleet(url, lines, stack, **more)


@pytest.mark.prove
async def test_clocks_that_are_minutes_off_start_nothing_early_and_lose_no_lease(
    engine: Engine, empty_postgres_url: str, skew: Skew, tmp_path: Path
):
    clocks = {
        "ahead": skew.clock("ahead", seconds=MINUTES_5),
        "behind": skew.clock("behind", seconds=-MINUTES_5),
    }
    lines = tmp_path / "lines"
    book = Book(lines)

    with a_fleet(empty_postgres_url, lines) as fleet:
        for queue, clock in clocks.items():
            fleet.start(clock, "-m", "longshore", "scheduler")
            fleet.start(clock, "-m", "longshore", "worker", "--queues", f"{queue}=1,default=1")
        producer = fleet.start(clocks["behind"], str(HERE / "skew_app.py"), empty_postgres_url)
        await eventually(lambda: producer.poll() == 0, within=PATIENCE)
        # The long jobs are held by now: a jump of ten minutes falls into their leases.
        await eventually(lambda: len(longs(book)) == len(QUEUES), within=PATIENCE)
        clocks["ahead"].set(-MINUTES_5)
        clocks["behind"].set(MINUTES_5)
        await eventually(lambda: everything_ended(engine), within=PATIENCE)
        ahead = engine_ahead(await engine.now())

    written = book.read()
    assert early_starts(written) == []
    assert {name: n for name, n in runs(written).items() if n != 1} == {}
    assert len(runs(written)) == len(QUEUES) * (len(DELAYS) + 2)
    ticks = sorted(float(due) for _, due in written["ticked"])
    assert ticks == [ticks[0] + n for n in range(len(ticks))]
    assert len(ticks) >= 3
    assert all(moment + ahead >= float(due) for moment, due in written["ticked"])


@pytest.mark.prove
async def test_a_machine_whose_clock_is_off_and_set_back_loses_no_lease_on_sqlite(
    skew: Skew, tmp_path: Path
):
    """Each process asks the machine's clock, so nothing is early by it, and nothing ends."""
    url, lines = f"sqlite:///{tmp_path}/jobs.db", tmp_path / "lines"
    clock, book = skew.clock("machine", seconds=MINUTES_5), Book(lines)
    short = len(QUEUES) * (len(DELAYS) + 1)
    engine = open_engine(url)
    await engine.migrate()

    with a_fleet(url, lines, SKEW_LONG="12") as fleet:
        for queue in QUEUES:
            fleet.start(clock, "-m", "longshore", "scheduler")
            fleet.start(clock, "-m", "longshore", "worker", "--queues", f"{queue}=1,default=1")
        producer = fleet.start(clock, str(HERE / "skew_app.py"), url)
        await eventually(lambda: producer.poll() == 0, within=PATIENCE)
        await eventually(lambda: len(longs(book)) == len(QUEUES), within=PATIENCE)

        async def only_the_long_ones_run() -> bool:
            return await succeeded(engine) == short

        await eventually(only_the_long_ones_run, within=PATIENCE)
        clock.set(-MINUTES_5)
        await eventually(lambda: everything_ended(engine), within=PATIENCE)
    await engine.close()

    written = book.read()
    assert early_starts(written) == []
    assert {name: n for name, n in runs(written).items() if n != 1} == {}
    ticks = [due for _, due in written["ticked"]]
    assert len(ticks) == len(set(ticks))


def longs(book: Book) -> list[str]:
    return [name for _, name in book.read()["ran"] if name.startswith("long-")]


def runs(written: dict[str, list[tuple[float, str]]]) -> Counter[str]:
    """How often each job ran, a failure that was meant to be apart."""
    return Counter(name for _, name in written["ran"])


def early_starts(written: dict[str, list[tuple[float, str]]]) -> list[str]:
    earliest = {
        name: moment + float(name.rpartition("-")[2]) for moment, name in written["submitting"]
    }
    for moment, name in written["failed"]:
        earliest[name] = moment + 2 * RETRY_BASE
    return [
        f"{name} ran {earliest[name] - moment:.3f} s early"
        for moment, name in written["ran"]
        if moment < earliest.get(name, moment)
    ]


def engine_ahead(engine_now: int) -> float:
    """At most this many seconds lie between the monotonic clock and the engine's."""
    return engine_now / 1e6 - time.monotonic() + 0.1


async def succeeded(engine: Engine) -> int:
    return sum(one.succeeded for one in await engine.counts() if one.queue in QUEUES)


async def everything_ended(engine: Engine) -> bool:
    return await succeeded(engine) == len(QUEUES) * (len(DELAYS) + 2)
