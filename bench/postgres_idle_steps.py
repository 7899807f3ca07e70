"""What each step of a lone job takes while nothing else is to do: submit, claim, settle.

    python bench/postgres_idle_steps.py URL --jobs 400

The database is migrated, and filled with finished jobs. The first job is told apart: for it
connections are opened, and the server plans its functions.
"""

import argparse
import asyncio
import secrets
import sys
import time
from collections.abc import Awaitable
from statistics import median, quantiles
from typing import TypeVar

from longshore.core import ids, settle
from longshore.core.job import NewJob
from longshore.engines import open_engine

T = TypeVar("T")
_LEASE = 600_000_000


class Steps:
    """Milliseconds by step."""

    def __init__(self) -> None:
        self.took: dict[str, list[float]] = {}

    async def time(self, step: str, call: Awaitable[T]) -> T:
        """What the call returns."""
        began = time.perf_counter()
        answer = await call
        self.took.setdefault(step, []).append((time.perf_counter() - began) * 1e3)
        return answer


async def measure(url: str, jobs: int) -> None:
    """One job after the other, from a producer to a worker in the same process."""
    producer, worker = open_engine(url), open_engine(url)
    await producer.migrate()
    queue = f"steps-{secrets.token_hex(4)}"
    session = await worker.open_session(
        worker="w", queues=[queue], types=["noop"], lease=_LEASE
    )
    got = await session.exchange(1, want=10)
    steps, number = Steps(), 1
    for place in range(jobs):
        job = NewJob(
            id=ids.make(got.now // 1000, secrets.token_bytes(10)),
            type="noop",
            queue=queue,
            payload=b"{}",
        )
        await steps.time("submit", producer.submit([job]))
        got = await steps.time("claim", session.exchange(number + 1, want=10))
        (claim,) = got.claims
        ended = settle.succeeded(claim, started_at=got.now, finished_at=got.now)
        settled = session.exchange(number + 2, settlements=[ended], want=10)
        await steps.time("settle", settled)
        number += 2
        await asyncio.sleep(0.01 * (place % 7 == 0))
    for step, took in steps.took.items():
        rest = took[1:]
        sys.stdout.write(
            f"{step:8}{jobs} jobs: p50 {median(rest):.2f} ms, "
            f"p99 {quantiles(rest, n=100)[-1]:.2f} ms, first {took[0]:.1f} ms\n"
        )
    await session.close()
    await producer.close()
    await worker.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--jobs", type=int, default=400)
    asked = parser.parse_args()
    asyncio.run(measure(asked.url, asked.jobs))
