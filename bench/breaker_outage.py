"""What an outage of a dependency costs, with a circuit breaker and with backoff alone.

    python bench/breaker_outage.py [--postgres] [--outage 60] [--jobs 2000] [--workers 2]

Worker processes run jobs that ask a dependency; it is down for so many seconds, in which an
attempt fails at once, and works from then on. Each run has its own store, and prints one JSON
line: attempts that failed, the processor time of all workers during the outage, and how long
after it the last job had succeeded. The last line says what the breaker saved.
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from typing import Any

from longshore import Breaker, Longshore
from longshore_lab.servers import PostgresServer

BREAKER = Breaker(failures=5, cooldown="2s")
START = 3.0
"""Seconds in which processes start."""
PATIENCE = 120.0


async def work(url: str, begins: float, up_at: float, *, has_breaker: bool) -> None:
    """Run jobs until told to stop; say what the outage cost."""
    app, failed = Longshore(url), 0

    async def ask() -> None:
        nonlocal failed
        if time.perf_counter() < up_at:
            failed += 1
            raise ConnectionError("the dependency is down")

    task = app.task(max_attempts=25, retry_cap=5.0)
    (task(breaker=BREAKER) if has_breaker else task)(ask)
    async with app:
        await asyncio.sleep(begins - time.perf_counter())
        before = _cpu()
        working = asyncio.create_task(app.work(concurrency=50))
        await asyncio.sleep(up_at - time.perf_counter())
        sys.stdout.write(f"{json.dumps([failed, _cpu() - before])}\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.readline)
        working.cancel()
        await asyncio.wait([working])


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def fill(url: str, jobs: int) -> None:
    """A store full of jobs."""
    app = Longshore(url)

    @app.task(max_attempts=25)
    async def ask() -> None: ...

    async with app:
        await app.engine.migrate()
        await app.submit_many(ask.spec() for _ in range(jobs))


async def all_succeeded(url: str, jobs: int) -> float:
    """When that is so."""
    async with Longshore(url) as app, asyncio.timeout(PATIENCE):
        while True:
            if sum(one.succeeded for one in await app.engine.counts()) == jobs:
                return time.perf_counter()
            await asyncio.sleep(0.05)


def measure(url: str, options: argparse.Namespace, *, has_breaker: bool) -> dict[str, Any]:
    """One outage."""
    asyncio.run(fill(url, options.jobs))
    begins = time.perf_counter() + START
    up_at = begins + options.outage
    command = [sys.executable, __file__, "--work", url, str(begins), str(up_at)]
    command += [str(int(has_breaker))]
    pipe = subprocess.PIPE
    crew = [
        subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        for _ in range(options.workers)
    ]
    costs: list[tuple[int, float]] = []
    try:
        for one in crew:
            assert one.stdout is not None
            costs.append(json.loads(one.stdout.readline()))
        over = asyncio.run(all_succeeded(url, options.jobs))
    finally:
        for one in crew:
            one.communicate("stop\n", timeout=60)
    return {
        "engine": url.partition(":")[0],
        "breaker": has_breaker,
        "outage_s": options.outage,
        "failed_attempts": sum(failed for failed, _ in costs),
        "worker_cpu_s": round(sum(cpu for _, cpu in costs), 2),
        "all_done_after_s": round(over - up_at, 2),
    }


def main() -> None:
    """Backoff alone, then with a breaker."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--outage", type=float, default=60.0)
    parser.add_argument("--jobs", type=int, default=2_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--work", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        url, begins, up_at, has_breaker = options.work
        asyncio.run(work(url, float(begins), float(up_at), has_breaker=has_breaker == "1"))
        return
    found: list[dict[str, Any]] = []
    for has_breaker in (False, True):
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            url = f"sqlite:///{folder}/jobs.db"
            if options.postgres:
                url = stack.enter_context(PostgresServer(durable=True)).create("outage")
            figures = measure(url, options, has_breaker=has_breaker)
        found.append(figures)
        sys.stdout.write(f"{json.dumps(figures)}\n")
        sys.stdout.flush()
    backoff, breaker = found
    spent, saved = backoff["worker_cpu_s"], backoff["worker_cpu_s"] - breaker["worker_cpu_s"]
    words = (
        f"the breaker saves {saved:.2f} s of {spent:.2f} s of processor time and"
        f" {backoff['failed_attempts'] - breaker['failed_attempts']:,} of"
        f" {backoff['failed_attempts']:,} attempts in {options.outage:g} s"
    )
    sys.stdout.write(f"{'holds' if saved > 0 else 'BROKEN'}: {words}\n")


if __name__ == "__main__":
    main()
