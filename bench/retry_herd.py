"""How jobs that fail at once come back.

    python bench/retry_herd.py [--postgres] [--jobs 50000] [--normal 1000] > budget.json
    python bench/retry_herd.py --plot herd.svg before.json budget.json

A worker runs --normal jobs a second, all the time. Then the dependency that all of them ask
goes down, --jobs more arrive at once, and everything fails; when each of these has failed it
is back. One JSON line has the figures, and how many jobs started in each second, first tries
and retries. The second form draws such lines, one below the other.
"""

import argparse
import asyncio
import json
import math
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from longshore import Longshore, current_job
from longshore.core.job import NewJob
from longshore.engines import open_engine
from longshore.runtime.clock import SystemClock
from longshore.runtime.ids import IdSource
from longshore_lab.servers import PostgresServer

EVERY_S = 0.05
START_S = 2.0
PATIENCE_S = 170.0
make = IdSource(SystemClock()).make
WIDTH, HEIGHT, MARGIN = 900, 220, 50


async def work(url: str, down_at: float, jobs: int) -> None:
    """Run jobs until told to stop; say when they started."""
    app = Longshore(url)
    started: Counter[tuple[int, bool]] = Counter()
    failed, up_at = 0, math.inf

    @app.task(name="ask")
    async def ask(*, is_one_more: bool = False) -> None:
        nonlocal failed, up_at
        now, is_retry = time.perf_counter(), current_job().attempt > 1
        started[math.floor(now - down_at), is_retry] += 1
        if down_at <= now < up_at:
            failed += is_one_more and not is_retry
            if failed >= jobs:
                up_at = now
            raise ConnectionError("the dependency is down")

    async with app:
        working = asyncio.create_task(app.work(concurrency=64))
        await asyncio.to_thread(sys.stdin.readline)
        working.cancel()
        await asyncio.wait([working])
    seconds = range(min(at for at, _ in started), max(at for at, _ in started) + 1)
    series = [[at, started[at, False], started[at, True]] for at in seconds]
    sys.stdout.write(f"{json.dumps([up_at - down_at, series])}\n")


async def produce(url: str, options: argparse.Namespace, down_at: float) -> float:
    """Submit until everything has succeeded; when that was, in seconds after it went down."""
    engine = open_engine(url)
    few = int(options.normal * EVERY_S)
    begin, sent, has_burst = time.perf_counter(), 0, False
    counted = begin
    while True:
        if time.perf_counter() >= down_at and not has_burst:
            has_burst = True
            for _ in range(0, options.jobs, 2_000):
                await engine.submit(_jobs(2_000, b'{"is_one_more":true}'))
        await engine.submit(_jobs(few))
        sent += few
        if time.perf_counter() > max(down_at + 5, counted) + 1:
            counted = time.perf_counter()
            (one,) = await engine.counts()
            if one.scheduled == 0 and one.ready + one.running < options.normal:
                break
            if counted - begin > PATIENCE_S:
                raise TimeoutError(f"{one.scheduled} retries are left")
        await asyncio.sleep(max(begin + sent / options.normal - time.perf_counter(), 0))
    await engine.close()
    return counted - down_at


def _jobs(count: int, payload: bytes = b"{}") -> list[NewJob]:
    return [
        NewJob(id=make(), type="ask", max_attempts=25, payload=payload) for _ in range(count)
    ]


def measure(url: str, options: argparse.Namespace) -> dict[str, Any]:
    """One outage."""

    async def migrate() -> None:
        engine = open_engine(url)
        await engine.migrate()
        await engine.close()

    asyncio.run(migrate())
    down_at = time.perf_counter() + START_S + options.warm
    command = [sys.executable, __file__, "--work", url, str(down_at), str(options.jobs)]
    pipe = subprocess.PIPE
    crew = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    try:
        over = asyncio.run(produce(url, options, down_at))
    finally:
        told, _ = crew.communicate("stop\n", timeout=60)
    outage, series = json.loads(told)
    normal = [first for at, first, _ in series if -options.warm / 2 <= at < -1]
    recovery = [first + again for at, first, again in series if at > outage]
    return {
        "engine": url.partition(":")[0],
        "jobs": options.jobs,
        "outage_s": round(outage, 1),
        "normal_per_s": round(sum(normal) / len(normal)),
        "recovery_peak_per_s": max(recovery),
        "recovery_s": round(over - outage, 1),
        "series": series,
    }


def plot(target: Path, runs: list[dict[str, Any]]) -> None:
    """Starts per second, one panel for each run."""
    height = HEIGHT + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
        f'height="{height * len(runs) + MARGIN}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    last = max(at for run in runs for at, *_ in run["series"])
    for number, run in enumerate(runs):
        parts += _panel(run, last, MARGIN + number * height)
    target.write_text("\n".join([*parts, "</svg>", ""]))


def _panel(run: dict[str, Any], last: int, top: int) -> list[str]:
    series, first = run["series"], run["series"][0][0]
    most = max(one + again for _, one, again in series)
    across = (WIDTH - 2 * MARGIN) / (last - first + 1)
    bottom = top + HEIGHT - MARGIN

    def bar(at: int, above: int, count: int, color: str) -> str:
        tall, low = [(HEIGHT - MARGIN) * n / most for n in (count, above)]
        x = MARGIN + (at - first) * across
        return (
            f'<rect x="{x:.1f}" y="{bottom - low - tall:.1f}" width="{across:.2f}" '
            f'height="{tall:.1f}" fill="{color}"/>'
        )

    down, up = [MARGIN + (at - first) * across for at in (0, run["outage_s"])]
    level = bottom - (HEIGHT - MARGIN) * 2 * run["normal_per_s"] / most
    words = (
        f"{run['engine']}: starts per second, first tries (grey) and retries (blue); highest "
        f"{most:,}, after the outage {run['recovery_peak_per_s']:,}; dashed: twice normal"
    )
    return [
        f'<text x="{MARGIN}" y="{top - 8}">{words}</text>',
        f'<rect x="{down:.1f}" y="{top}" width="{up - down:.1f}" '
        f'height="{HEIGHT - MARGIN}" fill="#fde0dc"/>',
        *(bar(at, 0, one, "#b8b8b8") for at, one, _ in series),
        *(bar(at, one, again, "#0b6e99") for at, one, again in series),
        f'<path d="M{MARGIN} {level:.1f}H{WIDTH - MARGIN}" stroke="#333" '
        'stroke-dasharray="4 4"/>',
        *(
            f'<text x="{MARGIN + (at - first) * across:.1f}" y="{bottom + 16}">{at} s</text>'
            for at in range(0, last, 10)
        ),
    ]


def main() -> None:
    """Measure and print, or draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--normal", type=int, default=1_000)
    parser.add_argument("--warm", type=float, default=15)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("runs", type=Path, nargs="*")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        url, down_at, jobs = options.work
        asyncio.run(work(url, float(down_at), int(jobs)))
        return
    if options.plot:
        plot(options.plot, [json.loads(one.read_text()) for one in options.runs])
        return
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        url = f"sqlite:///{folder}/jobs.db"
        if options.postgres:
            url = stack.enter_context(PostgresServer(durable=True)).create("herd")
        figures = measure(url, options)
    sys.stdout.write(f"{json.dumps(figures)}\n")


if __name__ == "__main__":
    main()
