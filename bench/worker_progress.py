"""What progress costs: many jobs that report a hundred times a second, beside silent ones.

    python bench/worker_progress.py [--postgres] [--jobs 500] [--seconds 5] [--pairs 3]

Each run has one worker in this process, on a store that is thrown away, and prints one JSON
line: exchanges, reports that were written, and this process's CPU per job and second of work.
Silent and reporting runs take turns.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from contextlib import ExitStack
from typing import Any

from longshore.core import event
from longshore.core.event import Name
from longshore.core.job import NewJob
from longshore.engines import open_engine
from longshore.job_context import current_job
from longshore.runtime.clock import SystemClock
from longshore.runtime.ids import IdSource
from longshore.worker.registry import Handler, Registry
from longshore.worker.settings import WorkerSettings
from longshore.worker.worker import Worker
from longshore_lab.servers import PostgresServer

PAUSE = 0.01


async def run(url: str, *, jobs: int, seconds: float, reports: bool) -> dict[str, Any]:
    """One run, and what it cost."""

    async def work(_: object) -> None:
        job, began = current_job(), time.monotonic()
        while True:
            passed = time.monotonic() - began
            if passed >= seconds:
                return
            if reports:
                await job.progress(passed / seconds, "on its way")
            await asyncio.sleep(PAUSE)

    engine = open_engine(url)
    await engine.migrate()
    make = IdSource(SystemClock()).make
    await engine.submit([NewJob(id=make(), type="work", timeout=None) for _ in range(jobs)])
    handler = Handler(type="work", decode=lambda _: None, run=work)
    worker = Worker(engine, Registry([handler]), WorkerSettings(concurrency=jobs))
    before = time.process_time()
    await worker.run(until_idle=True)
    spent = time.process_time() - before
    batches = await engine.events(after=0, limit=1_000_000)
    told = [one for one in batches for one in event.expand(one) if one.name is Name.PROGRESS]
    await engine.close()
    return {
        "engine": url.partition(":")[0],
        "reports": reports,
        "jobs": jobs,
        "exchanges": worker.stats.exchanges,
        "written": len(told),
        "per_job_and_second": round(len(told) / jobs / seconds, 2),
        "cpu_us_per_job_and_second": round(spent / jobs / seconds * 1e6, 1),
    }


def main() -> None:
    """Take turns, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--pairs", type=int, default=3)
    options = parser.parse_args()
    for number in range(2 * options.pairs):
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            url = f"sqlite:///{folder}/jobs.db"
            if options.postgres:
                url = stack.enter_context(PostgresServer(durable=True)).create("progress")
            figures = asyncio.run(
                run(
                    url,
                    jobs=options.jobs,
                    seconds=options.seconds,
                    reports=bool(number % 2),
                )
            )
        sys.stdout.write(f"{json.dumps(figures)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
