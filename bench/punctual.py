"""How late jobs start that were submitted for a time, behind a backlog.

    python bench/punctual.py [--postgres] [--backlog 1000000] [--jobs 200] [--rate 50]

A worker is busy with the backlog, whose handlers take a millisecond or two, when jobs become
due one after the other, --rate a second. Late is what passes between a job's run_at and the
first line of its handler.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack

from longshore.core.job import NewJob
from longshore.engines import open_engine
from longshore.runtime.clock import SystemClock
from longshore.runtime.ids import IdSource
from longshore.scheduler.promote import Promoter
from longshore.worker.registry import Handler, Registry
from longshore.worker.settings import WorkerSettings
from longshore.worker.worker import Worker
from longshore_lab.servers import PostgresServer

BATCH = 2_000
AHEAD_S = 6.0
make = IdSource(SystemClock()).make


async def work(url: str, slots: int, expected: int) -> None:
    """Run jobs until so many said when they were due; print how late they were."""
    late: list[float] = []
    over = asyncio.Event()

    async def run(due: object) -> None:
        if isinstance(due, float):
            late.append(SystemClock().now() / 1e6 - due)
            if len(late) == expected:
                over.set()
        else:
            await asyncio.sleep(0.001)

    engine = open_engine(url)
    await engine.ping()
    handler = Handler(type="work", decode=json.loads, run=run)
    promoter = Promoter(engine, on_promoted=lambda _: worker.nudge())
    ticks = [("promote", promoter.tick)]
    worker = Worker(engine, Registry([handler]), WorkerSettings(concurrency=slots), ticks=ticks)
    running = asyncio.create_task(worker.run())
    async with asyncio.timeout(200):
        await over.wait()
    sys.stdout.write(f"{json.dumps(late)}\n")
    sys.stdout.flush()
    running.cancel()


async def measure(url: str, options: argparse.Namespace) -> None:
    """Fill, start a worker, and print."""
    engine = open_engine(url)
    await engine.migrate()
    for _ in range(0, options.backlog, BATCH):
        await engine.submit([NewJob(id=make(), type="work") for _ in range(BATCH)])
    first = SystemClock().now() / 1e6 + AHEAD_S
    for number in range(options.jobs):
        due = first + number / options.rate
        payload = json.dumps(due).encode()
        job = NewJob(id=make(), type="work", run_at=round(due * 1e6), payload=payload)
        await engine.submit([job])
    words = [url, str(options.slots), str(options.jobs)]
    crew = await asyncio.create_subprocess_exec(
        *(sys.executable, __file__, "--work", *words), stdout=subprocess.PIPE
    )
    try:
        assert crew.stdout is not None
        found: list[float] = sorted(json.loads(await crew.stdout.readline()))
    finally:
        crew.kill()
        await crew.wait()
    left = sum(one.ready for one in await engine.counts())
    await engine.close()
    p99 = round(1_000 * found[int(len(found) * 0.99) - 1], 1)
    figures = {
        "engine": url.partition(":")[0],
        "backlog": options.backlog,
        "left": left,
        "p50_ms": round(1_000 * found[len(found) // 2], 1),
        "p99_ms": p99,
        "max_ms": round(1_000 * found[-1], 1),
    }
    sys.stdout.write(f"{json.dumps(figures)}\n")
    sys.stdout.write(f"p99 is below 100 ms: {p99 < 100}\n")


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--backlog", type=int, default=1_000_000)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--rate", type=float, default=50)
    parser.add_argument("--slots", type=int, default=32)
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        url, slots, expected = options.work
        asyncio.run(work(url, int(slots), int(expected)))
        return
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        url = f"sqlite:///{folder}/jobs.db"
        if options.postgres:
            url = stack.enter_context(PostgresServer(durable=True)).create("punctual")
        asyncio.run(measure(url, options))


if __name__ == "__main__":
    main()
