"""What a limit costs that does not bind: the same jobs with it and without.

    python bench/flow_limits.py [--postgres] [--limit rate] [--jobs 40000] [--pairs 3]

Each run has its own store, full of jobs that do nothing, and worker processes that begin at the
same moment. Runs without and with limits take turns; each prints one JSON line, and so does the
median of the pairs; the last line says whether it is within the bound, nine tenths.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack

from longshore.core.job import NewJob
from longshore.core.limit_settings import Layer, QueueSettings
from longshore.engines import open_engine
from longshore.records import queue_settings
from longshore.runtime.clock import SystemClock
from longshore.runtime.ids import IdSource
from longshore.worker.registry import Handler, Registry
from longshore.worker.settings import WorkerSettings
from longshore.worker.worker import Worker
from longshore_lab.servers import PostgresServer

LIMITS = {
    "max_running": QueueSettings(max_running=1_000_000),
    "rate": QueueSettings(rate=1_000_000.0, burst=1_000_000),
}
BATCH = 500
LEAST = 0.9
"""Of the throughput without a limit."""


async def fill(url: str, jobs: int, limit: str | None) -> None:
    """A store full of jobs."""
    engine = open_engine(url)
    await engine.migrate()
    if limit:
        await queue_settings.put(engine, "default", Layer.DECLARED, LIMITS[limit])
    make = IdSource(SystemClock()).make
    for _ in range(0, jobs, BATCH):
        await engine.submit([NewJob(id=make(), type="work") for _ in range(BATCH)])
    await engine.close()


async def work(url: str) -> None:
    """Run jobs until there are none, from the moment that somebody says so."""

    async def nothing(_: object) -> None: ...

    engine = open_engine(url)
    await engine.ping()
    handler = Handler(type="work", decode=lambda _: None, run=nothing)
    worker = Worker(engine, Registry([handler]), WorkerSettings(concurrency=200))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    await worker.run(until_idle=True)
    await engine.close()


def measure(url: str, *, jobs: int, workers: int, limit: str | None) -> float:
    """Jobs per second."""
    asyncio.run(fill(url, jobs, limit))
    command = [sys.executable, __file__, "--work", url]
    pipe = subprocess.PIPE
    crew = [
        subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(workers)
    ]
    for one in crew:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    began = time.perf_counter()
    for one in crew:
        one.communicate("go\n", timeout=120)
    took = time.perf_counter() - began
    assert [one.returncode for one in crew] == [0] * workers
    return jobs / took


def judge(limit: str, ratios: list[float]) -> None:
    """Say whether it costs more than it may."""
    median = statistics.median(ratios)
    whole = {"limit": limit, "ratios": [round(one, 3) for one in ratios]}
    sys.stdout.write(f"{json.dumps(whole | {'median': round(median, 3)})}\n")
    words = f"with {limit} {median:.3f} times as fast as without, of at least {LEAST}"
    sys.stdout.write(f"{'holds' if median >= LEAST else 'BROKEN'}: {words}\n")


def main() -> None:
    """Take turns, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--jobs", type=int, default=40_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--limit", choices=list(LIMITS), default="max_running")
    parser.add_argument("--work", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        asyncio.run(work(options.work))
        return
    ratios: list[float] = []
    rates = [0.0, 0.0]
    for number in range(2 * options.pairs):
        # The first of a pair is not always the same.
        is_limited = (number % 4) in (1, 2)
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            url = f"sqlite:///{folder}/jobs.db"
            if options.postgres:
                url = stack.enter_context(PostgresServer(durable=True)).create("limits")
            limit = options.limit if is_limited else None
            rate = measure(url, jobs=options.jobs, workers=options.workers, limit=limit)
        rates[is_limited] = rate
        figures = {
            "engine": url.partition(":")[0],
            "limits": is_limited,
            "jobs_per_s": round(rate),
        }
        sys.stdout.write(f"{json.dumps(figures)}\n")
        sys.stdout.flush()
        if number % 2:
            ratios.append(rates[1] / rates[0])
    judge(options.limit, ratios)


if __name__ == "__main__":
    main()
