"""How long a tenant waits behind another's flood, and how exact weights are.

    python bench/fairness.py [--postgres] [--flood 1000000] [--jobs 100]
                             [--handler-ms 0 | --mix]
    python bench/fairness.py [--postgres] --weights [--seconds 60]

The first measures how long jobs of a quiet tenant wait, from before their submit until they
start, each 20 ms after the one before: with the worker idle, and then behind the flood. The
second counts what tenants of the weights 3, 2 and 1 are served while all of them wait. One
worker process, with as many slots as --slots says. With --handler-ms, handlers of the flood
sleep up to so long, the longest of them every hundredth time. With --mix they are those of
`longshore bench --profile mix`: 70 % take 1 to 5 ms, 20 % take 0.2 to 2 s, and 10 % fail.
A JSON line of figures, and a line that says whether the bound holds.
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any

from longshore.contract import Engine
from longshore.core.account import Tenant
from longshore.core.job import NewJob
from longshore.core.limit_settings import Layer, Order, QueueSettings
from longshore.engines import open_engine
from longshore.job_context import current_job
from longshore.records import queue_settings, tenants
from longshore.runtime.clock import SystemClock
from longshore.runtime.ids import IdSource
from longshore.worker.registry import Handler, Registry
from longshore.worker.settings import WorkerSettings
from longshore.worker.worker import Worker
from longshore_lab.servers import PostgresServer

BATCH = 2_000
SPACE_S = 0.02
SETTLE_S = 3
"""After the flood was written, in which the disk takes it in."""
LONGEST_OF_MIX_MS = 2_000
WEIGHTS = {"a": 3, "b": 2, "c": 1}
_FARTHEST = 0.05
"""How far from its weight a tenant may be served."""
make = IdSource(SystemClock()).make


def now() -> float:
    """Seconds, for processes on one machine."""
    return SystemClock().now() / 1e6


def jobs(tenant: str, count: int, payload: bytes = b'{"sent":null}') -> list[NewJob]:
    """Jobs that differ in nothing but their ids."""
    return [
        NewJob(id=make(), type="work", tenant=tenant, payload=payload) for _ in range(count)
    ]


async def fill(engine: Engine, tenant: str, count: int) -> None:
    """So many jobs of a tenant, each with its number."""
    for begin in range(0, count, BATCH):
        await engine.submit(
            [
                NewJob(id=make(), type="work", tenant=tenant, payload=b'{"sent":%d}' % number)
                for number in range(begin, min(begin + BATCH, count))
            ]
        )


async def mixed(number: int) -> None:
    """As long, and with the end, that a job of the mix with this number has."""
    share, spread = number % 100, (number * 7_919 % 1_000) / 1_000
    if share >= 90 and current_job().failures < (1 if share < 95 else 99):
        raise RuntimeError("as planned")
    if share < 90:
        await asyncio.sleep(0.001 + 0.004 * spread if share < 70 else 0.2 + 1.8 * spread)


async def work(
    url: str, slots: int, handler_ms: float | None, *, expected: int, seconds: float
) -> None:
    """Run jobs until so many said when they were sent, or for so long; print what was seen.

    Without `handler_ms` handlers are those of the mix.
    """
    waits: list[float] = []
    served: Counter[str] = Counter()
    chance = random.Random(7)
    over = asyncio.Event()

    async def run(sent: object) -> None:
        if isinstance(sent, float):
            waits.append(now() - sent)
            if len(waits) == expected:
                over.set()
            return
        if isinstance(sent, str):
            served[sent] += 1
        if handler_ms is None and isinstance(sent, int):
            await mixed(sent)
        elif handler_ms:
            longest = chance.random() < 0.01
            await asyncio.sleep(handler_ms / 1_000 * (1 if longest else chance.random() / 2))

    running = await started(url, slots, run)
    say("ready")
    if seconds:
        await asyncio.sleep(2)
        before = Counter(served)
        await asyncio.sleep(seconds)
        say(json.dumps(served - before))
    else:
        async with asyncio.timeout(200):
            await over.wait()
        await asyncio.sleep(0.5)  # that they ended is to be stored before we are killed
        say(json.dumps(waits[:expected]))
    running.cancel()


async def started(
    url: str, slots: int, run: Callable[[object], Awaitable[None]]
) -> asyncio.Task[object]:
    """A worker."""
    engine = open_engine(url)
    await engine.ping()
    handler = Handler(type="work", decode=lambda raw: json.loads(raw)["sent"], run=run)
    worker = Worker(engine, Registry([handler]), WorkerSettings(concurrency=slots))
    return asyncio.create_task(worker.run())


def say(words: str) -> None:
    """Tell whoever started this process."""
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


class Crew:
    """A worker process."""

    def __init__(self, url: str, options: argparse.Namespace, *, expected: int = 0) -> None:
        handlers = "mix" if options.mix else options.handler_ms
        words = [url, options.slots, handlers, expected]
        words.append(options.seconds if options.weights else 0)
        command = [sys.executable, __file__, "--work", *map(str, words)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._answers = self._process.stdout
        assert self._answers.readline() == "ready\n"

    async def told(self) -> Any:
        """What it saw."""
        try:
            return json.loads(await asyncio.to_thread(self._answers.readline))
        finally:
            self._process.kill()
            self._process.wait()


async def waits_of(engine: Engine, crew: Crew, count: int) -> dict[str, float]:
    """How long jobs of a quiet tenant wait, in milliseconds."""
    for _ in range(count):
        await engine.submit(jobs("quiet", 1, json.dumps({"sent": now()}).encode()))
        await asyncio.sleep(SPACE_S)
    told = await crew.told()
    found = sorted(1_000 * float(one) for one in told)
    return {
        "p50_ms": round(found[len(found) // 2], 1),
        "p99_ms": round(found[int(len(found) * 0.99) - 1], 1),
        "max_ms": round(found[-1], 1),
    }


async def behind_a_flood(url: str, options: argparse.Namespace) -> None:
    """Waits alone, and behind the flood."""
    engine = open_engine(url)
    await engine.migrate()
    fair = QueueSettings(order=Order.FAIR)
    await queue_settings.put(engine, "default", Layer.OVERRIDDEN, fair)
    alone = await waits_of(engine, Crew(url, options, expected=options.jobs), options.jobs)
    if options.late:
        await queue_settings.put(engine, "default", Layer.OVERRIDDEN, QueueSettings())
    began = time.perf_counter()
    await fill(engine, "flood", options.flood)
    filled = time.perf_counter()
    await queue_settings.put(engine, "default", Layer.OVERRIDDEN, fair)
    sorted_at = time.perf_counter()
    crew = Crew(url, options, expected=options.jobs)
    await asyncio.sleep(SETTLE_S)
    behind = await waits_of(engine, crew, options.jobs)
    left = sum(one.ready for one in await engine.counts())
    await engine.close()
    longest = LONGEST_OF_MIX_MS if options.mix else options.handler_ms
    bound = 2 * alone["p99_ms"] + 50 + longest / options.slots
    figures = {
        "engine": url.partition(":")[0],
        "flood": options.flood,
        "submit_s": round(filled - began, 1),
        "sort_s": round(sorted_at - filled, 1),
        "left": left,
        "alone": alone,
        "behind": behind,
        "bound_ms": round(bound, 1),
    }
    say(json.dumps(figures))
    found = behind["p99_ms"]
    words = f"p99 behind {options.flood:,} jobs {found} ms, of at most {bound:.1f}"
    if not left:
        words += "; but the flood was over before the end"
    say(f"{'holds' if left and found <= bound else 'BROKEN'}: {words}")


async def by_weights(url: str, options: argparse.Namespace) -> None:
    """Who is served how much."""
    engine = open_engine(url)
    await engine.migrate()
    fair = QueueSettings(order=Order.FAIR)
    await queue_settings.put(engine, "default", Layer.OVERRIDDEN, fair)
    for name, weight in WEIGHTS.items():
        await tenants.create(engine, Tenant(name=name, weight=weight))
        payload = json.dumps({"sent": name}).encode()
        for _ in range(0, options.flood * weight // 6, BATCH):
            await engine.submit(jobs(name, BATCH, payload))
    told = await Crew(url, options).told()
    left = await engine.counts()
    await engine.close()
    total = sum(told.values())
    shares = {
        name: round(told.get(name, 0) / total * sum(WEIGHTS.values()), 3) for name in WEIGHTS
    }
    figures = {
        "engine": url.partition(":")[0],
        "seconds": options.seconds,
        "served": told,
        "left": left[0].ready,
        "shares": shares,
    }
    say(json.dumps(figures))
    worst = max(abs(shares[name] / weight - 1) for name, weight in WEIGHTS.items())
    words = f"served 3 : 2 : 1 within {worst:.2%} over {options.seconds:g} s, of at most 5 %"
    is_over = any(told.get(name, 0) >= options.flood * WEIGHTS[name] // 6 for name in WEIGHTS)
    if is_over or not left[0].ready:
        words += "; but someone had nothing left"
    holds = worst <= _FARTHEST and left[0].ready > 0 and not is_over
    say(f"{'holds' if holds else 'BROKEN'}: {words}")


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--flood", type=int, default=1_000_000)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--handler-ms", type=float, default=0)
    parser.add_argument("--mix", action="store_true", help="the handlers of the mix profile")
    parser.add_argument("--late", action="store_true", help="fair only after the flood")
    parser.add_argument("--weights", action="store_true")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--work", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        url, slots, handlers, expected, seconds = options.work
        handler_ms = None if handlers == "mix" else float(handlers)
        ends = int(expected), float(seconds)
        asyncio.run(work(url, int(slots), handler_ms, expected=ends[0], seconds=ends[1]))
        return
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        url = f"sqlite:///{folder}/jobs.db"
        if options.postgres:
            url = stack.enter_context(PostgresServer(durable=True)).create("fairness")
        asyncio.run((by_weights if options.weights else behind_a_flood)(url, options))


if __name__ == "__main__":
    main()
