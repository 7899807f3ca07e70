"""What jobs that may not be taken cost those who claim others.

    python bench/exclusions.py [--postgres] [--jobs 1000000] [--claims 500] [--why breaker ...]

A claim of one job is timed, of a type that may be taken, --claims times: first in a queue that
has nothing else, then with --jobs of another type before it, which are left out because their
breaker is open, because their type is paused, or because the ordering keys they have are held.
For each reason a JSON line of figures, and one that says whether p99 is within twice as much.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from contextlib import ExitStack

from longshore.contract import Engine, Session
from longshore.core import settle
from longshore.core.job import NewJob
from longshore.core.limit_settings import BreakerSettings, Layer
from longshore.engines import open_engine
from longshore.records import breaker_settings, pauses
from longshore.runtime.clock import SystemClock
from longshore.runtime.ids import IdSource
from longshore_lab.servers import PostgresServer

BATCH = 2_000
KEYS = 100
HOUR = 3_600_000_000
make = IdSource(SystemClock()).make


class Claimer:
    """A worker that takes and ends one job at a time."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._number = 0

    async def claim(self, count: int = 1) -> list[int]:
        """Take jobs and keep them."""
        self._number += 1
        answer = await self._session.exchange(self._number, want=count)
        return [claim.handle for claim in answer.claims]

    async def fail(self) -> None:
        """Take a job, and fail it."""
        self._number += 1
        (claim,) = (await self._session.exchange(self._number, want=1)).claims
        why, now = settle.failure("outage", "down"), SystemClock().now()
        end = settle.failed(claim, why, delay=HOUR, started_at=now, finished_at=now)
        self._number += 1
        await self._session.exchange(self._number, settlements=[end])

    async def turn(self) -> float:
        """Take one, and end it; seconds that taking it took."""
        self._number += 1
        began = time.perf_counter()
        (claim,) = (await self._session.exchange(self._number, want=1)).claims
        took = time.perf_counter() - began
        now = SystemClock().now()
        self._number += 1
        end = settle.succeeded(claim, started_at=now, finished_at=now)
        await self._session.exchange(self._number, settlements=[end])
        return took


async def a_claimer(engine: Engine) -> Claimer:
    """Of both types."""
    types = ["left-out", "wanted"]
    offer = {"queues": ["default"], "types": types, "lease": HOUR}
    return Claimer(await engine.open_session(worker="bench", **offer))


async def timed(engine: Engine, claims: int) -> dict[str, float]:
    """How long claims of single jobs take, in milliseconds."""
    claimer, found = await a_claimer(engine), []
    for number in range(claims + 20):
        await engine.submit([NewJob(id=make(), type="wanted")])
        took = await claimer.turn()
        if number >= 20:
            found.append(1_000 * took)
    found.sort()
    return {
        "p50_ms": round(found[len(found) // 2], 2),
        "p99_ms": round(found[int(len(found) * 0.99) - 1], 2),
    }


async def leave_out(engine: Engine, why: str, jobs: int) -> None:
    """Put jobs before all others that may not be taken."""

    def some(count: int) -> list[NewJob]:
        key = "key-{}" if why == "keys" else None
        return [
            NewJob(
                id=make(),
                type="left-out",
                priority=1,
                ordering_key=key and key.format(number % KEYS),
            )
            for number in range(count)
        ]

    if why == "breaker":
        rules = BreakerSettings(failures=1, cooldown=HOUR)
        await breaker_settings.put(engine, "left-out", Layer.OVERRIDDEN, rules)
        await engine.submit(some(1))
        await (await a_claimer(engine)).fail()
    if why == "pause":
        await pauses.pause(engine, type="left-out")
    if why == "keys":
        await engine.submit(some(KEYS))
        assert len(await (await a_claimer(engine)).claim(KEYS)) == KEYS
    for _ in range(0, jobs, BATCH):
        await engine.submit(some(BATCH))


async def measure(url: str, why: str, options: argparse.Namespace) -> None:
    """One reason to be left out."""
    engine = open_engine(url)
    await engine.migrate()
    empty = await timed(engine, options.claims)
    await leave_out(engine, why, options.jobs)
    behind = await timed(engine, options.claims)
    (counts,) = await engine.counts()
    await engine.close()
    figures = {
        "engine": url.partition(":")[0],
        "why": why,
        "left_out": counts.ready,
        "empty": empty,
        "behind": behind,
        "ratio_p99": round(behind["p99_ms"] / empty["p99_ms"], 2),
    }
    sys.stdout.write(f"{json.dumps(figures)}\n")
    found, most = behind["p99_ms"], 2 * empty["p99_ms"]
    words = f"{why}: p99 behind {counts.ready:,} jobs {found} ms, of at most {most:.2f}"
    sys.stdout.write(f"{'holds' if found <= most else 'BROKEN'}: {words}\n")
    sys.stdout.flush()


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--claims", type=int, default=500)
    reasons = ["breaker", "pause", "keys"]
    parser.add_argument("--why", nargs="+", choices=reasons, default=reasons)
    options = parser.parse_args()
    for why in options.why:
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            url = f"sqlite:///{folder}/jobs.db"
            if options.postgres:
                url = stack.enter_context(PostgresServer(durable=True)).create("exclusions")
            asyncio.run(measure(url, why, options))


if __name__ == "__main__":
    main()
