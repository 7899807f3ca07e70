"""The task and the producers of the failover trial, which write ledgers outside of the queue.

    python -m longshore_lab.failover_app URL NAME RATE

submits so many jobs a second until it is ended, and leaves a line `<called> <acknowledged> <n>
<id>` in `accepted-NAME` for each that was acknowledged; the first two are times.
"""

import asyncio
import os
import sys
import time
from contextlib import suppress
from itertools import count
from random import Random

from longshore import Longshore, LongshoreError

__all__ = ["app"]

app = Longshore()
_SECONDS = 5.0, 12.0
"""How long a job runs, at least and at most: longer than it takes to fail over."""
_TOGETHER = 64
"""Submissions under way at once, at most."""


def _write(name: str, line: str) -> None:
    book = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(book, f"{line}\n".encode())
    finally:
        os.close(book)


@app.task(queue="failover", timeout=None)
async def carry(n: int, seconds: float) -> int:
    """Leave a line `begin <n>` and, so much later, `end <n>` in the file `runs`; return n."""
    _write("runs", f"begin {n}")
    await asyncio.sleep(seconds)
    _write("runs", f"end {n}")
    return n


async def produce(url: str, name: str, rate: float) -> None:
    """Submit jobs at a steady rate; those that are refused are not sent again."""
    rng = Random(name)
    room = asyncio.Semaphore(_TOGETHER)

    async def submit(n: int, seconds: float) -> None:
        async with room:
            called = time.time()
            with suppress(LongshoreError):
                job = await carry.submit(n, seconds)
                _write(f"accepted-{name}", f"{called} {time.time()} {n} {job.id}")

    with app.at(url):
        async with app, asyncio.TaskGroup() as group:
            for place in count():
                group.create_task(submit(place * 1000 + int(name), rng.uniform(*_SECONDS)))
                await asyncio.sleep(1 / rate)


if __name__ == "__main__":
    asyncio.run(produce(sys.argv[1], sys.argv[2], float(sys.argv[3])))
