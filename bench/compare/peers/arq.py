"""arq on Valkey.

Settings: https://arq-docs.helpmanual.io/#reference: two processes, max_jobs raised from 10
since the jobs wait for nothing, results not kept. A poll reads at most queue_read_limit ids,
500 here, so poll_delay bounds the rate: 20 ms instead of 0.5 s. It has no call for many jobs:
a hundred submits are under way at once.
"""

import asyncio
from typing import Any, ClassVar

import uvloop
from arq import create_pool
from arq.connections import RedisSettings
from bench.compare.drive import TEXT, drive
from bench.compare.meter import Meter, url

meter = Meter()


async def noop(_: Any, text: str) -> None:
    """Do nothing."""
    meter.count()


async def ping(_: Any, text: str) -> None:
    """Say how long it took to begin."""
    meter.ping(text)


async def hang(_: Any, text: str) -> None:
    """Never return, the first time."""
    if meter.hangs():
        await asyncio.sleep(600)


class WorkerSettings:
    """What `arq bench.compare.peers.arq.WorkerSettings` runs."""

    functions: ClassVar[list[Any]] = [noop, ping, hang]
    redis_settings = RedisSettings.from_dsn(url())
    max_jobs = 100
    poll_delay = 0.02
    keep_result = 0


class Producer:
    """Submits through a pool of connections."""

    bulk = 100

    async def open(self) -> None:
        """Connect."""
        self._pool = await create_pool(WorkerSettings.redis_settings)

    async def setup(self) -> None:
        """Nothing to make."""

    async def one(self, task: str, text: str) -> None:
        """In the server's memory when it returns."""
        await self._pool.enqueue_job(task, text)

    async def many(self, jobs: int) -> None:
        """All at once."""
        await asyncio.gather(*(self._pool.enqueue_job("noop", TEXT) for _ in range(jobs)))

    async def close(self) -> None:
        """Disconnect."""
        await self._pool.aclose()


if __name__ == "__main__":
    drive(Producer(), uvloop.run)
