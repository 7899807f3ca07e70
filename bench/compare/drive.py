"""The producer's side of every Python peer: submit, and time it.

    python -m bench.compare.peers.<name> ROLE [NUMBER ...]

The roles: setup; one SECONDS MOST; bulk JOBS; ping TIMES PAUSE; hang.

Prints one line of JSON. Standard library only: this module runs in the environment of each
peer.
"""

import asyncio
import json
import random
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Protocol

from bench.compare.meter import folder

__all__ = ["TEXT", "Producer", "drive"]

TEXT = "x" * 100
"""The payload of a job that does nothing."""
_WARM_UP = 20
_LOST_SECONDS = 15.0
_PING_SECONDS = 25.0
_LOOK_SECONDS = 0.002


class Producer(Protocol):
    """What a peer's file implements. Its tasks are `noop`, `ping` and `hang`."""

    bulk: int
    """Jobs per bulk call."""

    async def open(self) -> None:
        """Connect."""

    async def setup(self) -> None:
        """Make tables and queues; called once, before anything else, after `open`."""

    async def one(self, task: str, text: str) -> None:
        """Submit one job and return when the system says that it is stored."""

    async def many(self, jobs: int) -> None:
        """Submit no-op jobs in the fewest calls the system has for it."""

    async def close(self) -> None:
        """Leave."""


def drive(
    producer: Producer, run: Callable[[Coroutine[None, None, object]], object] = asyncio.run
) -> None:
    """Do what the command line says, in the event loop that the peer's documents advise."""
    found = run(_drive(producer, sys.argv[1], [float(one) for one in sys.argv[2:]]))
    print(json.dumps(found))


async def _drive(producer: Producer, role: str, numbers: list[float]) -> object:
    await producer.open()
    try:
        match role, numbers:
            case "setup", []:
                return await producer.setup()
            case "one", [seconds, most]:
                return await _one(producer, seconds, int(most))
            case "bulk", [jobs]:
                return await _bulk(producer, int(jobs))
            case "ping", [times, pause]:
                return await _ping(producer, int(times), pause)
            case "hang", []:
                return await producer.one("hang", "")
            case _:
                raise SystemExit(__doc__)
    finally:
        await producer.close()


async def _one(producer: Producer, seconds: float, most: int) -> dict[str, float]:
    for _ in range(_WARM_UP):
        await producer.one("noop", TEXT)
    jobs, began, used = 0, time.perf_counter(), time.process_time()
    while jobs < most and time.perf_counter() - began < seconds:
        await producer.one("noop", TEXT)
        jobs += 1
    return _figures(jobs, began, used) | {"submitted": jobs + _WARM_UP}


async def _bulk(producer: Producer, jobs: int) -> dict[str, float]:
    began, used = time.perf_counter(), time.process_time()
    for start in range(0, jobs, producer.bulk):
        await producer.many(min(producer.bulk, jobs - start))
    return _figures(jobs, began, used) | {"submitted": jobs}


def _figures(jobs: int, began: float, used: float) -> dict[str, float]:
    return {
        "jobs": jobs,
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - used,
    }


async def _ping(producer: Producer, times: int, pause: float) -> dict[str, int]:
    """One job at a time into an idle queue; the next after the last has begun, and a while."""
    pings, rng = folder() / "pings", random.Random(7)
    pings.touch()
    enough = time.monotonic() + _PING_SECONDS
    for number in range(times):
        if time.monotonic() > enough:
            return {"pings": number}
        await producer.one("ping", str(time.monotonic_ns()))
        deadline = time.monotonic() + _LOST_SECONDS
        while pings.stat().st_size <= number * 8:
            if time.monotonic() > deadline:
                return {"lost_after": number}
            await asyncio.sleep(_LOOK_SECONDS)
        await asyncio.sleep(rng.uniform(0.01, pause))
    return {"pings": times}
