"""How soon the handler of a running job learns that the job was cancelled.

    python -m longshore_lab.cancels [--postgres | --url URL] [--cancels 50] [--rooms 1]

One `longshore worker` runs one job at a time, on the loop, in a thread or in a process, and
this process cancels it. The time is from the call of `cancel` until the handler knows, and
until the queue has the job as cancelled. With `--rooms 1` the worker is full, so nothing else
makes it talk to the engine. The store is a SQLite file that is thrown away, or with
--postgres a server that is; --deaf takes the wake-ups away from PostgreSQL, as a pooler does.
The exit code is 1 if a job is in two places of PostgreSQL's tables or in none.
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from longshore.contract import Engine
from longshore.core import ids
from longshore.core.job import JobId
from longshore.core.state import State
from longshore.engines import open_engine
from longshore_lab.cancels_app import app
from longshore_lab.places import count_misplaced
from longshore_lab.servers import PostgresServer

__all__ = ["TASKS", "main", "measure"]

TASKS = ("on_the_loop", "in_a_thread", "in_a_process")
_PATIENCE = 60.0
_GLANCE = 0.002

Waits = tuple[float, float]
"""Milliseconds until the handler knew, and until the queue did."""


async def measure(engine: Engine, folder: Path, task: str, cancels: int) -> list[Waits]:
    """Cancel so many jobs of a task, one after the other."""
    waits: list[Waits] = []
    for _ in range(cancels):
        job_id = await _submit(engine, task)
        await _until(lambda job_id=job_id: _entered(folder, job_id, "runs"))
        began = time.monotonic()
        await engine.change("cancel", [job_id], reason="trial")
        await _until(lambda job_id=job_id: _is_cancelled(engine, job_id))
        settled = time.monotonic()
        told = await _entered(folder, job_id, "told") or settled
        waits.append(((told - began) * 1e3, (settled - began) * 1e3))
    return waits


async def _submit(engine: Engine, task: str) -> JobId:
    spec = app.tasks[task].read(b"{}")
    await engine.submit([spec.job])
    return spec.job.id


async def _is_cancelled(engine: Engine, job_id: JobId) -> bool:
    return (await engine.get(job_id)).state is State.CANCELLED


async def _entered(folder: Path, job_id: JobId, what: str) -> float | None:
    book = folder / "book"
    for line in book.read_text().splitlines() if book.exists() else []:
        if line.endswith(f"{ids.text(job_id)} {what}"):
            return float(line.split()[0])
    return None


async def _until(condition: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(_PATIENCE):
        while True:
            if await condition():
                return
            await asyncio.sleep(_GLANCE)


@contextmanager
def _worker(url: str, folder: Path, rooms: int) -> Generator[None]:
    words = ["--url", url, "--app", "longshore_lab.cancels_app:app", "--queues", "cancels"]
    words += ["--concurrency", str(rooms), "--drain-timeout", "0s"]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "longshore", "worker", *words], cwd=folder, stderr=log
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(_PATIENCE)


def _figures(waits: Sequence[float]) -> dict[str, float]:
    cuts = statistics.quantiles(waits, n=100, method="inclusive")
    figures = {"p50": cuts[49], "p90": cuts[89], "p99": cuts[98], "max": max(waits)}
    return {name: round(value, 1) for name, value in figures.items()}


async def _run(options: argparse.Namespace, url: str, folder: Path) -> bool:
    """Whether every job was in its place."""
    is_right = True
    engine = open_engine(url)
    await engine.migrate()
    try:
        with _worker(url, folder, options.rooms):
            for task in options.tasks:
                await measure(engine, folder, task, 2)
                waits = await measure(engine, folder, task, options.cancels)
                misplaced = await count_misplaced(url)
                is_right = is_right and not misplaced
                line = {
                    "engine": url.partition(":")[0],
                    "task": task,
                    "rooms": options.rooms,
                    "cancels": len(waits),
                    "told_ms": _figures([told for told, _ in waits]),
                    "cancelled_ms": _figures([settled for _, settled in waits]),
                    "misplaced": misplaced,
                }
                print(msgspec.json.encode(line).decode(), flush=True)
    finally:
        await engine.close()
    return is_right


def main(arguments: Sequence[str] | None = None) -> int:
    """Cancel, and print the figures of each task as one JSON line."""
    parser = argparse.ArgumentParser(prog="longshore_lab.cancels", description=__doc__)
    parser.add_argument("--url", help="the store; it must be empty")
    parser.add_argument("--postgres", action="store_true", help="a durable server of its own")
    parser.add_argument("--deaf", action="store_true", help="PostgreSQL without wake-ups")
    parser.add_argument("--cancels", type=int, default=50)
    parser.add_argument("--rooms", type=int, default=1, help="the worker's concurrency")
    parser.add_argument("--tasks", nargs="*", choices=TASKS, default=TASKS)
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="longshore-cancels-"))
        url = options.url or f"sqlite:///{folder}/jobs.db"
        if options.postgres:
            url = stack.enter_context(PostgresServer(durable=True)).create("cancels")
        if options.deaf:
            url += ("&" if "?" in url else "?") + "listen=off"
        is_right = asyncio.run(_run(options, url, Path(folder)))
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
