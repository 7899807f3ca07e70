"""SAQ on Valkey.

Settings: https://saq-py.readthedocs.io/en/latest/getting_started.html and the README of its
repository (tobymao/saq): hiredis, two workers, results not kept. Concurrency (10), retries,
timeout and sweep are the defaults; a concurrency of 100 was slower. It has no call for many
jobs: a hundred submits are under way at once.
"""

import asyncio
from typing import Any

import uvloop
from bench.compare.drive import TEXT, drive
from bench.compare.meter import Meter, url
from saq import Queue

meter = Meter()
queue = Queue.from_url(url())


async def noop(_: Any, *, text: str) -> None:
    """Do nothing."""
    meter.count()


async def ping(_: Any, *, text: str) -> None:
    """Say how long it took to begin."""
    meter.ping(text)


async def hang(_: Any, *, text: str) -> None:
    """Never return, the first time."""
    if meter.hangs():
        await asyncio.sleep(600)


settings = {"queue": queue, "functions": [noop, ping, hang], "concurrency": 10}


class Producer:
    """Submits through the queue's connections."""

    bulk = 100

    async def open(self) -> None:
        """Connect."""
        await queue.connect()

    async def setup(self) -> None:
        """Nothing to make."""

    async def one(self, task: str, text: str) -> None:
        """In the server's memory when it returns."""
        await queue.enqueue(task, text=text, ttl=-1)

    async def many(self, jobs: int) -> None:
        """All at once."""
        submits = (queue.enqueue("noop", text=TEXT, ttl=-1) for _ in range(jobs))
        await asyncio.gather(*submits)

    async def close(self) -> None:
        """Disconnect."""
        await queue.disconnect()


if __name__ == "__main__":
    drive(Producer(), uvloop.run)
