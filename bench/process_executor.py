"""What it costs to run jobs in child processes, with an engine that costs nothing.

    python bench/process_executor.py noop  [--jobs 20000] [--children 2] [--bytes 0]
    python bench/process_executor.py pool  [--jobs 20000] [--children 2]
    python bench/process_executor.py cpu   [--jobs 60] [--children 2] [--ms 50]
    python bench/process_executor.py start [--jobs 10]

noop: jobs that do nothing, through a whole worker. pool: calls that do nothing, through the
process pool of the standard library, 64 in flight, as a yardstick. cpu: jobs that compute for
so many milliseconds, in children and in threads. start: how long a fresh interpreter takes to
be ready, a fork of a template, and what a fork of a process that has imported this very module
would take.
"""

import argparse
import asyncio
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from pathlib import Path
from statistics import median
from typing import Any, cast

from longshore import Longshore
from longshore.contract import Engine, Exchanged, Promoted, Reference, Renewed, Report, Wakeup
from longshore.core.capabilities import Traits
from longshore.core.job import Claim, Settlement
from longshore.runtime.clock import SystemClock
from longshore.testing.factories import a_claim
from longshore.worker import child_protocol
from longshore.worker.app_locator import find_origin
from longshore.worker.registry import Registry
from longshore.worker.settings import WorkerSettings
from longshore.worker.starter import Starter
from longshore.worker.worker import Worker

app = Longshore("sqlite://:memory:")
_CLOCK = SystemClock()


@app.task(execution="process", timeout=300.0)
def noop(blob: str) -> None:
    """Nothing."""


@app.task(execution="process", timeout=300.0)
def compute(rounds: int) -> int:
    """Hold the interpreter's lock for a while."""
    return _spin(rounds)


@app.task(execution="thread", timeout=300.0)
def compute_in_thread(rounds: int) -> int:
    """The same in a thread."""
    return _spin(rounds)


def _spin(rounds: int) -> int:
    total = 0
    for number in range(rounds):
        total += number & 7
    return total


class _Source:
    """Hands out what it was given, and takes back what was released."""

    traits = Traits(
        transactional_submit=False,
        transactional_completion=False,
        pushes_wakeups=True,
        claims_at_wakeup=False,
        ordering_keys=False,
        survives_power_loss=False,
        own_clock=False,
        shared_between_processes=False,
    )
    token = 1
    lease = 30_000_000

    def __init__(self, claims: list[Claim]) -> None:
        self._claims = claims
        self._by_handle = {one.handle: one for one in claims}
        self._released: list[Claim] = []
        self._goal = 0
        self._is_reached = asyncio.Event()
        self.settled = 0

    async def open_session(self, **_: Any) -> "_Source":
        return self

    async def exchange(
        self,
        number: int,
        *,
        started: Sequence[Reference] = (),
        progress: Sequence[Report] = (),
        settlements: Sequence[Settlement] = (),
        want: int = 0,
        queues: Sequence[str] | None = None,
    ) -> Exchanged:
        for one in settlements:
            if one.verb == "release":
                self._released.append(self._by_handle[one.handle])
            else:
                assert one.verb == "succeed", one
                self.settled += 1
        if self.settled >= self._goal:
            self._is_reached.set()
        await asyncio.sleep(0)
        claims = [self._released.pop() for _ in range(min(want, len(self._released)))]
        more = want - len(claims)
        claims += self._claims[:more]
        del self._claims[:more]
        return Exchanged(_CLOCK.now(), claims)

    async def reached(self, count: int) -> None:
        """Return when so many jobs are settled."""
        self._goal = count
        self._is_reached.clear()
        await self._is_reached.wait()

    async def renew(self, **_: Any) -> Renewed:
        now = _CLOCK.now()
        return Renewed(now, now + self.lease)

    async def promote(self, *, limit: int) -> Promoted:
        return Promoted(0, None)

    async def wait(self, seconds: float, *, until: Wakeup = "work") -> None:
        await asyncio.sleep(seconds)

    async def ping(self) -> None:
        return None

    async def close(self) -> None:
        return None


def _claims(type_name: str, payload: bytes, count: int) -> list[Claim]:
    return [
        a_claim(handle=n, type=type_name, payload=payload, timeout=300_000_000)
        for n in range(count)
    ]


async def _work(claims: list[Claim], children: int) -> tuple[float, float, float]:
    """Seconds, and seconds of CPU here and in the children; a first job is not counted."""
    tasks = [noop, compute, compute_in_thread]
    registry = Registry(
        (task.handler() for task in tasks), origin=lambda: find_origin(app, ["__main__"])
    )
    settings = WorkerSettings(children=children, threads=children)
    source = _Source(claims)
    worker = Worker(cast("Engine", source), registry, settings)
    count = len(claims)
    running = asyncio.create_task(worker.run(until_idle=True))
    await source.reached(count // 20)
    begin, wall, cpu = source.settled, time.perf_counter(), time.process_time()
    before = _spent_by(_children())
    await source.reached(count)
    share = (count - begin) / count
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    elsewhere = _spent_by(_children()) - before
    await running
    return wall / share, cpu / share, elsewhere / share


def _children() -> list[Path]:
    """The child processes of this one, in /proc."""
    mine = f" {os.getpid()} "
    found = (path for path in Path("/proc").iterdir() if path.name.isdecimal())
    return [path for path in found if mine in _stat(path)[:40]]


def _spent_by(processes: list[Path]) -> float:
    """Seconds of CPU that they have used so far."""
    ticks = os.sysconf("SC_CLK_TCK")
    return sum(sum(map(int, _stat(one).split()[11:13])) for one in processes) / ticks


def _stat(process: Path) -> str:
    try:
        return (process / "stat").read_text().rpartition(")")[2]
    except OSError:
        return ""


def _noop(options: argparse.Namespace) -> None:
    payload = b'{"blob": "%s"}' % (b"x" * options.bytes)
    claims = _claims("noop", payload, options.jobs)
    wall, cpu, _ = asyncio.run(_work(claims, options.children))
    _say(
        f"noop, {options.children} children, {options.bytes} bytes: "
        f"{options.jobs / wall:,.0f} jobs/s, {cpu / options.jobs * 1e6:.0f} µs CPU per job in "
        "the worker"
    )


def _pool(options: argparse.Namespace) -> None:
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.children, mp_context=spawn) as pool:
        wait([pool.submit(abs, 1) for _ in range(options.children * 4)])
        wall, cpu = time.perf_counter(), time.process_time()
        flying: set[Any] = set()
        for number in range(options.jobs):
            flying.add(pool.submit(abs, number))
            if len(flying) >= 64:
                flying = wait(flying, return_when="FIRST_COMPLETED").not_done
        wait(flying)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    _say(
        f"pool, {options.children} processes: {options.jobs / wall:,.0f} calls/s, "
        f"{cpu / options.jobs * 1e6:.0f} µs CPU per call in the parent"
    )


def _cpu(options: argparse.Namespace) -> None:
    begin = time.perf_counter()
    _spin(1_000_000)
    rounds = int(options.ms / 1e3 * 1_000_000 / (time.perf_counter() - begin))
    for name, count in (
        ("compute", 1),
        ("compute", options.children),
        ("compute_in_thread", 2),
    ):
        claims = _claims(name, b'{"rounds": %d}' % rounds, options.jobs)
        wall, here, there = asyncio.run(_work(claims, count))
        cores = (here + there) / wall
        _say(f"cpu, {name} × {count}: {options.jobs / wall:.1f} jobs/s on {cores:.2f} cores")


def _start(options: argparse.Namespace) -> None:
    never, soon = Starter(1_000_000), Starter(0)
    # The template is started with the first, and not there before some have followed.
    for _ in range(6):
        asyncio.run(_ready(soon))
    for name, measure in (
        ("fresh interpreter", lambda: asyncio.run(_ready(never))),
        ("fork of a template", lambda: asyncio.run(_ready(soon))),
        ("fork", _fork),
    ):
        begin = _spent()
        values = [measure() for _ in range(options.jobs)]
        cpu = (_spent() - begin) / options.jobs * 1e3
        _say(f"start, {name}: {_spread(values)} ms, {cpu:.1f} ms CPU from start to end")
    soon.close()


async def _ready(starter: Starter) -> float:
    """Milliseconds until a child has imported this very module."""
    loop = asyncio.get_running_loop()
    ready, gone = loop.create_future(), loop.create_future()
    origin = find_origin(app, ["__main__"])
    start = starter.of(child_protocol.Setup(origin, ("noop",), tuple(sys.path)))
    begin = time.perf_counter()
    child = start(
        loop,
        on_message=lambda _, __: ready.set_result(None),
        on_gone=lambda _: gone.set_result(None),
    )
    await ready
    took = time.perf_counter() - begin
    child.leave(5.0)
    await gone
    return took * 1e3


def _spent() -> float:
    """Seconds of CPU that this process and its ended children have used."""
    theirs = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + theirs.ru_utime + theirs.ru_stime


def _fork() -> float:
    """Milliseconds until a fork of this process, which has imported the same, says so."""
    reader, writer = os.pipe()
    begin = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        os.write(writer, b"x")
        os._exit(0)
    os.read(reader, 1)
    took = time.perf_counter() - begin
    os.waitpid(pid, 0)
    os.close(reader)
    os.close(writer)
    return took * 1e3


def _spread(values: list[float]) -> str:
    return f"{median(values):.1f} ({min(values):.1f}–{max(values):.1f})"


def _say(words: str) -> None:
    sys.stdout.write(words + "\n")
    sys.stdout.flush()


def main() -> None:
    """Measure one thing, and print a line or three."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["noop", "pool", "cpu", "start"])
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--children", type=int, default=2)
    parser.add_argument("--bytes", type=int, default=0)
    parser.add_argument("--ms", type=float, default=50.0)
    options = parser.parse_args()
    usual = {"noop": 20_000, "pool": 20_000, "cpu": 60, "start": 10}
    options.jobs = options.jobs or usual[options.what]
    {"noop": _noop, "pool": _pool, "cpu": _cpu, "start": _start}[options.what](options)


if __name__ == "__main__":
    main()
