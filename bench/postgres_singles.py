"""How fast a backlog is worked off that came job by job, so that nearly every span is short.

    python bench/postgres_singles.py --jobs 1000000

Calls of one to five jobs, none joined with another, as they come at a low rate: each becomes a
segment and a span of its own. Then two workers drain them on a durable server. Beside it: what
a look at the depths takes before that, and the same drain of as many jobs in batches of 1,000.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import asyncpg
import msgspec

from longshore.bench.board import Board
from longshore.bench.load import Load
from longshore.bench.plan import Plan, Profile
from longshore.engines import open_engine
from longshore.runtime.process import loop_factory
from longshore.task import Spec
from longshore_lab.servers import PostgresServer

_GO, _STOP = 1, 2
_SIZES = (1, 2, 3, 4, 5)
_BATCHES = (1_000,)
_CONNECTIONS = 2
_PER_COMMIT = 500
_LONGEST = 600.0
"""Seconds that a drain may take."""


async def fill(url: str, load: Load, jobs: int, sizes: tuple[int, ...]) -> int:
    """Submit in calls of these sizes; how many calls it took."""
    calls = 0
    specs, turn = load.specs(), cycle(sizes)
    left = jobs

    async def submit(connection: asyncpg.Connection) -> None:
        nonlocal left, calls
        while left > 0:
            async with connection.transaction():
                for size in islice(turn, max(_PER_COMMIT // max(sizes), 1)):
                    if left <= 0:
                        break
                    mine = _on(connection, islice(specs, min(size, left)))
                    left -= len(mine)
                    calls += 1
                    await load.app.submit_many(mine)

    connections = [await asyncpg.connect(url) for _ in range(_CONNECTIONS)]
    async with load.app:
        await asyncio.gather(*map(submit, connections))
    for connection in connections:
        await connection.execute("vacuum analyze")
        await connection.close()
    return calls


def _on(connection: asyncpg.Connection, specs: Iterator[Spec[Any]]) -> list[Spec[Any]]:
    return [msgspec.structs.replace(one, connection=connection) for one in specs]


async def look(url: str) -> float:
    """Milliseconds that a look at the depths takes, the best of three."""
    engine = open_engine(url)
    took: list[float] = []
    for _ in range(3):
        began = time.perf_counter()
        await engine.depths()
        took.append((time.perf_counter() - began) * 1e3)
    await engine.close()
    return round(min(took), 1)


def started(folder: str) -> "list[subprocess.Popen[bytes]]":
    """Two workers."""
    command = [sys.executable, "-m", "longshore.bench.actors", "worker"]
    return [subprocess.Popen([*command, str(one), folder]) for one in (1, 2)]


async def drain(plan: Plan, jobs: int) -> float:
    """Jobs per second, from the first that ended to the last."""
    with tempfile.TemporaryDirectory(prefix="singles-") as name:
        folder = Path(name)
        (folder / "plan.json").write_bytes(msgspec.json.encode(plan))
        board = Board(folder / "board")
        crew = started(name)
        try:
            return await _watch(board, jobs, time.monotonic() + _LONGEST)
        finally:
            board.phase = _STOP
            for process in crew:
                await asyncio.to_thread(process.wait)


async def _watch(board: Board, jobs: int, until: float) -> float:
    while not (board.is_ready(1) and board.is_ready(2)):  # noqa: ASYNC110  # in memory
        await asyncio.sleep(0.05)
    board.phase = _GO
    began = first = 0.0
    while (done := board.count(1) + board.count(2)) < jobs:
        now = time.monotonic()
        if now > until:
            raise SystemExit(f"{jobs - done:,d} jobs were left after {_LONGEST:g} s")
        if done and not began:
            began, first = now, done
        await asyncio.sleep(0.005)
    return round((jobs - first) / (time.monotonic() - began))


async def main(options: argparse.Namespace) -> None:
    """Short spans, then long ones."""
    async with PostgresServer(durable=True) as server:
        found: dict[str, Any] = {"jobs": options.jobs}
        for kind, sizes in (("singles", _SIZES), ("batches", _BATCHES)):
            url = await asyncio.to_thread(server.create, kind)
            engine = open_engine(url)
            await engine.migrate()
            await engine.close()
            plan = Plan(url=url, profile=Profile.NOOP, processes=2)
            calls = await fill(url, Load(plan), options.jobs, sizes)
            milliseconds = await look(url)
            rate = await drain(plan, options.jobs)
            sys.stdout.write(
                f"{kind}: {options.jobs:,d} jobs in {calls:,d} calls; depths in"
                f" {milliseconds:g} ms; drained at {rate:,.0f} jobs/s\n"
            )
            sys.stdout.flush()
            found[kind] = {"calls": calls, "depths_ms": milliseconds, "jobs_per_s": rate}
        found["reached"] = found["singles"]["jobs_per_s"] >= options.goal
        sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--goal", type=float, default=40_000, help="jobs/s of the short spans")
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(main(parser.parse_args()))
