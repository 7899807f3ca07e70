"""What a job costs the worker itself: CPU per no-op job, with an engine that costs nothing.

    python bench/worker_hot_path.py [--jobs 300000] [--handler async|context|sleep|thread]
                                    [--concurrency 64] [--loop asyncio|uvloop] [--profile]

The engine here hands out claims it made beforehand and forgets what is settled. What is left
is the worker's own part: buffer, slots, decoding, the decision, bookkeeping and batching.
The budget for an async no-op is 8 µs.
"""

import argparse
import asyncio
import cProfile
import pstats
import sys
import time
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, cast

import msgspec

from longshore.core.job import Claim, Settlement
from longshore.engine import Engine, Exchanged, Promoted, Reference, Renewed
from longshore.runtime.clock import SystemClock
from longshore.testing.factories import a_claim
from longshore.worker.registry import Execution, Handler, Registry
from longshore.worker.settings import WorkerSettings
from longshore.worker.worker import Worker

_CLOCK = SystemClock()
MARK: ContextVar[int] = ContextVar("mark", default=0)


class _Arguments(msgspec.Struct):
    user_id: int
    name: str


async def noop(_: Any) -> None:
    """Nothing, on the loop."""


async def change_context(arguments: Any) -> None:
    """Leave a context variable changed, as a handler that binds log fields does."""
    MARK.set(arguments.user_id)


async def sleep(_: Any) -> None:
    """Give way once."""
    await asyncio.sleep(0)


def plain(_: Any) -> None:
    """Nothing, in a thread."""


RUNS = {"async": noop, "context": change_context, "sleep": sleep, "thread": plain}


class _Source:
    """Hands out what it was given; both the engine and its one session."""

    token = 1
    lease = 30_000_000

    def __init__(self, claims: list[Claim]) -> None:
        self._claims = claims
        self._at = 0
        self.settled = 0

    async def open_session(self, **_: Any) -> "_Source":
        return self

    async def exchange(
        self,
        number: int,
        *,
        started: Sequence[Reference] = (),
        settlements: Sequence[Settlement] = (),
        want: int = 0,
        queues: Sequence[str] | None = None,
    ) -> Exchanged:
        self.settled += len(settlements)
        await asyncio.sleep(0)
        claims = self._claims[self._at : self._at + want]
        self._at += len(claims)
        return Exchanged(_CLOCK.now(), claims)

    async def renew(self, **_: Any) -> Renewed:
        now = _CLOCK.now()
        return Renewed(now, now + self.lease)

    async def promote(self, *, limit: int) -> Promoted:
        return Promoted(0, None)

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        return None


def main() -> None:
    """Run the jobs once and print one line."""
    options = _options()
    claims = [
        a_claim(handle=i, payload=b'{"user_id": 7, "name": "ada"}', timeout=300_000_000)
        for i in range(options.jobs)
    ]
    handler = Handler(
        type="noop",
        decode=msgspec.json.Decoder(_Arguments).decode,
        run=RUNS[options.handler],
        execution=Execution.THREAD if options.handler == "thread" else Execution.ASYNC,
    )
    source = _Source(claims)
    settings = WorkerSettings(concurrency=options.concurrency)

    async def work() -> None:
        worker = Worker(cast(Engine, source), Registry([handler]), settings)
        profile = cProfile.Profile() if options.profile else None
        wall, cpu = time.perf_counter(), time.process_time()
        if profile:
            profile.enable()
        await worker.run(until_idle=True)
        if profile:
            profile.disable()
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)
        cpu = (time.process_time() - cpu) / options.jobs * 1e6
        wall = time.perf_counter() - wall
        stats = worker.stats
        sys.stdout.write(
            f"{options.handler}: {cpu:.2f} µs CPU per job, {options.jobs / wall:,.0f} jobs/s, "
            f"{stats.exchanges} exchanges, {stats.released} released\n"
        )
        assert stats.succeeded + stats.released == source.settled

    if options.loop == "uvloop":
        import uvloop

        uvloop.run(work())
    else:
        asyncio.run(work())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=300_000)
    parser.add_argument("--handler", choices=sorted(RUNS), default="async")
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--loop", choices=["asyncio", "uvloop"], default="asyncio")
    parser.add_argument("--profile", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
