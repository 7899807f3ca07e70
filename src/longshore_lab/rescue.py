"""How soon a job runs again after its worker was killed with -9, and what keepers cost.

    python -m longshore_lab.rescue [--url URL | --postgres] [--kills 50] [--no-keeper]

Workers are started a dozen at a time, with their keepers. One of them runs a job and is killed;
the job starts in another. The time is from the signal to the first line of the handler. The
store is a SQLite file that is thrown away, or with --postgres a server that is. In the end one
worker is watched, idle and with no-op jobs, for the CPU and the memory that its keeper takes;
with `--kills 0` nothing else is done. The exit code is 1 if a job is in two places of
PostgreSQL's tables or in none.
"""

import argparse
import asyncio
import inspect
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from longshore.contract import Engine
from longshore.core.job import NewJob
from longshore.engines import open_engine
from longshore.runtime.clock import SystemClock
from longshore.runtime.ids import IdSource
from longshore_lab.places import count_misplaced
from longshore_lab.servers import PostgresServer

__all__ = ["Cost", "Site", "measure", "watch"]

_CREW = 12
_PATIENCE = 60.0
_GLANCE = 0.005
_LOAD = 200
"""Jobs in each batch of the load that a keeper is watched under."""
_WARM_UP = 20

Worker = subprocess.Popen[bytes]


class Cost(msgspec.Struct, frozen=True):
    """What a keeper takes from others."""

    idle_ms_per_s: float
    """CPU, in milliseconds per second."""
    busy_ms_per_s: float
    """The same, beside a worker that has all the jobs it can run."""
    private_mib: float
    pss_mib: float
    worker_idle_ms_per_s: float
    """What the worker itself takes while there is nothing to do."""
    worker_busy_ms_per_s: float


@dataclass(slots=True)
class Site:
    """A store, a folder, and the workers that are there."""

    url: str
    folder: Path
    engine: Engine
    lease: str = "30s"
    has_keepers: bool = True
    crew: dict[int, Worker] = field(default_factory=dict[int, Worker])
    _ids: IdSource = field(default_factory=lambda: IdSource(SystemClock()))

    async def man(self, count: int) -> None:
        """Have so many workers, each kept, and none that has never run a job."""
        for _ in range(count - len(self.crew)):
            self._hire()
        await _until(self._is_manned)
        for _ in range(_WARM_UP):
            await self.submit_load()
            await _until(self._is_done)

    async def submit(self, n: int) -> None:
        """A job that runs until it is let go."""
        payload = msgspec.json.encode({"n": n})
        job_id = self._ids.make()
        await self.engine.submit(
            [NewJob(id=job_id, type="hold", queue="rescue", payload=payload, timeout=None)]
        )

    async def submit_load(self) -> None:
        """A batch of jobs that do nothing."""
        await self.engine.submit(
            [NewJob(id=self._ids.make(), type="noop", queue="load") for _ in range(_LOAD)]
        )

    def runs(self, n: int) -> list[tuple[float, int]]:
        """When the job was started, and by which process."""
        book = self.folder / "runs"
        lines = book.read_text().splitlines() if book.exists() else []
        found = (line.split() for line in lines)
        return [(float(at), int(pid)) for at, pid, number in found if int(number) == n]

    def let_go(self, n: int) -> None:
        """Let the job end."""
        (self.folder / f"go-{n}").touch()

    def keeper_of(self, pid: int) -> int:
        """The process id of a worker's keeper."""
        log = (self.folder / "log").read_text().splitlines()
        started = [line for line in map(json.loads, log) if line["event"] == "keeper started"]
        return next(line["pid"] for line in started if line["worker"].endswith(f":{pid}"))

    def dismiss(self) -> None:
        """Let everyone leave, with their keepers."""
        for process in self.crew.values():
            process.terminate()
        for process in self.crew.values():
            process.wait(_PATIENCE)
        self.crew.clear()

    def _hire(self) -> None:
        environ = {**os.environ, "LONGSHORE_WORKER_KEEPER": str(self.has_keepers).lower()}
        words = ["--url", self.url, "--app", "longshore_lab.rescue_app:app", "--json"]
        words += ["--queues", "rescue,load", "--lease", self.lease]
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "longshore", "worker", *words],
                cwd=self.folder,
                env=environ,
                stderr=log,
            )
        self.crew[process.pid] = process

    async def _is_done(self) -> bool:
        counts = await self.engine.counts()
        return not any(one.ready or one.running for one in counts if one.queue == "load")

    async def _is_manned(self) -> bool:
        # A keeper renews as soon as it sees the session, the worker itself after a third.
        sessions = (await self.engine.sessions()).sessions
        ready = [
            one for one in sessions if one.renewed_at > one.opened_at or not self.has_keepers
        ]
        return len(ready) >= len(self.crew)


async def measure(site: Site, kills: int) -> list[float]:
    """Milliseconds from each kill until the job ran elsewhere."""
    waits: list[float] = []
    for n in range(kills):
        if len(site.crew) < 2:
            await site.man(min(_CREW, kills - n + 1))
        await site.submit(n)
        await _until(lambda n=n: bool(site.runs(n)))
        pid = site.runs(n)[0][1]
        killed = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        await _until(lambda n=n: len(site.runs(n)) > 1)
        waits.append((site.runs(n)[1][0] - killed) * 1e3)
        site.crew.pop(pid).wait(_PATIENCE)
        site.let_go(n)
    return waits


async def watch(site: Site, seconds: float) -> Cost:
    """What the keeper of one worker costs."""
    site.dismiss()
    await _until(lambda: _is_empty(site.engine))
    await site.man(1)
    (pid,) = site.crew
    keeper = site.keeper_of(pid)

    async def rest() -> None:
        await asyncio.sleep(seconds)

    async def load() -> None:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            await site.submit_load()

    idle, busy = await _cpu([keeper, pid], rest), await _cpu([keeper, pid], load)
    memory = _memory(keeper)
    private = memory["Private_Dirty"] + memory["Private_Clean"]
    return Cost(
        idle_ms_per_s=idle[0],
        busy_ms_per_s=busy[0],
        private_mib=round(private / 1024, 1),
        pss_mib=round(memory["Pss"] / 1024, 1),
        worker_idle_ms_per_s=idle[1],
        worker_busy_ms_per_s=busy[1],
    )


async def _is_empty(engine: Engine) -> bool:
    return not (await engine.sessions()).sessions


async def _cpu(pids: Sequence[int], meanwhile: Callable[[], Awaitable[None]]) -> list[float]:
    """What each took meanwhile, in milliseconds per second."""
    before, began = [_cpu_seconds(pid) for pid in pids], time.monotonic()
    await meanwhile()
    seconds = time.monotonic() - began
    spent = [_cpu_seconds(pid) - then for pid, then in zip(pids, before, strict=True)]
    return [round(one / seconds * 1e3, 2) for one in spent]


def _cpu_seconds(pid: int) -> float:
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(one.read_text().split()[0]) for one in threads) / 1e9


def _memory(pid: int) -> dict[str, int]:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {line.split(":")[0]: int(line.split()[1]) for line in lines}


async def _until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(_PATIENCE):
        while True:
            answer = condition()
            if await answer if inspect.isawaitable(answer) else answer:
                return
            await asyncio.sleep(_GLANCE)


async def _run(options: argparse.Namespace, url: str, folder: Path) -> dict[str, object]:
    engine = open_engine(url)
    await engine.migrate()
    site = Site(url, folder, engine, options.lease, not options.no_keeper)
    try:
        waits = sorted(await measure(site, options.kills))
        cost = None if options.no_keeper else await watch(site, options.watch)
    finally:
        site.dismiss()
        await engine.close()
    figures: dict[str, object] = {
        "engine": url.partition(":")[0],
        "kills": len(waits),
        "misplaced": await count_misplaced(url),
    }
    if waits:
        cuts = statistics.quantiles(waits, n=100, method="inclusive")
        figures |= {
            "p50_ms": round(cuts[49], 1),
            "p90_ms": round(cuts[89], 1),
            "p99_ms": round(cuts[98], 1),
            "max_ms": round(waits[-1], 1),
            "waits_ms": [round(wait, 1) for wait in waits],
        }
    return {**figures, "keeper": cost}


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill, and print the figures as one JSON line."""
    parser = argparse.ArgumentParser(prog="longshore_lab.rescue", description=__doc__)
    parser.add_argument("--url", help="the store; it must be empty")
    parser.add_argument("--postgres", action="store_true", help="a durable server of its own")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--lease", default="30s", help="how long the fallback takes")
    parser.add_argument("--no-keeper", action="store_true", help="for comparison")
    parser.add_argument("--watch", type=float, default=10.0, help="seconds of each observation")
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="longshore-rescue-"))
        url = options.url or f"sqlite:///{folder}/jobs.db"
        if options.postgres:
            url = stack.enter_context(PostgresServer(durable=True)).create("rescue")
        figures = asyncio.run(_run(options, url, Path(folder)))
    print(msgspec.json.encode(figures).decode())
    return 1 if figures["misplaced"] else 0


if __name__ == "__main__":
    sys.exit(main())
