"""A backlog that came job by job: nearly every span is short, and so is every look at it."""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any, TypeVar, cast

import asyncpg
import msgspec

from longshore.bench.load import Load
from longshore.bench.plan import Plan
from longshore.bench.shared_counters import Board
from longshore.core.limit_settings import Layer, QueueSettings
from longshore.engines import open_engine
from longshore.engines.postgres.engine import PostgresEngine
from longshore.engines.postgres.ordering_key_queries import DepthSource
from longshore.records import queue_settings
from longshore.runtime.clock import SystemClock
from longshore.task import Spec
from longshore_lab.experiments.experiment import ExperimentError

__all__ = ["SIZES", "Looks", "drain", "fill", "look"]

SIZES = (1, 2, 3, 4, 5)
"""Jobs of one call, in turn."""
_GO, _STOP = 1, 2
_CONNECTIONS = 2
_PER_COMMIT = 500
_LONGEST = 600.0
"""Seconds that a drain may take."""
_LOOKS = 3
T = TypeVar("T")


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


class Looks(msgspec.Struct, frozen=True):
    """What looks at a backlog take, in milliseconds, each the best of three."""

    monitored_ms: float
    counted_ms: float
    bounded_ms: float
    told: int
    """How many jobs the monitor is told to wait."""
    oldest_s: float
    """And how old the oldest is."""


async def look(url: str, queues: Sequence[str]) -> Looks:
    """Before anything runs."""
    engine = cast("PostgresEngine", open_engine(url))
    monitored, counts = await _timed(lambda: engine.counts(may_estimate=True))
    counted, _ = await _timed(engine.counts)
    for queue in queues:
        await queue_settings.put(
            engine, queue, Layer.OVERRIDDEN, QueueSettings(max_depth=10**9)
        )
    database = engine._database  # pyright: ignore[reportPrivateUsage]
    bounded, _ = await _timed(DepthSource(database).depths)
    for queue in queues:
        await queue_settings.put(engine, queue, Layer.OVERRIDDEN, QueueSettings())
    await engine.close()
    now = SystemClock().now()
    ages = [(now - one.oldest_ready_at) / 1e6 for one in counts if one.oldest_ready_at]
    told = sum(one.ready for one in counts)
    return Looks(monitored, counted, bounded, told, round(max(ages), 1))


async def _timed(call: Callable[[], Awaitable[T]]) -> tuple[float, T]:
    best, found = await _once(call)
    for _ in range(_LOOKS - 1):
        took, found = await _once(call)
        best = min(best, took)
    return round(best, 1), found


async def _once(call: Callable[[], Awaitable[T]]) -> tuple[float, T]:
    began = time.perf_counter()
    found = await call()
    return (time.perf_counter() - began) * 1e3, found


def started(folder: str) -> "list[subprocess.Popen[bytes]]":
    """Two workers."""
    command = [sys.executable, "-m", "longshore.bench.processes", "worker"]
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
    while True:
        if board.is_ready(1) and board.is_ready(2):
            break
        if time.monotonic() > until:
            raise ExperimentError("the workers did not start")
        await asyncio.sleep(0.05)
    board.phase = _GO
    began = first = 0.0
    while (done := board.count(1) + board.count(2)) < jobs:
        now = time.monotonic()
        if now > until:
            raise ExperimentError(f"{jobs - done:,d} jobs were left after {_LONGEST:g} s")
        if done and not began:
            began, first = now, done
        await asyncio.sleep(0.005)
    return round((jobs - first) / (time.monotonic() - began))
