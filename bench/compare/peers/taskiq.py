"""Taskiq on Valkey.

Settings: https://taskiq-python.github.io/available-components/brokers.html (of the Redis
brokers the one with acknowledgements, RedisStreamBroker) and
https://taskiq-python.github.io/guide/cli.html (two workers, many tasks at a time, prefetch).
It has no call for many jobs: a hundred submits are under way at once.
"""

import asyncio

import uvloop
from bench.compare.drive import TEXT, drive
from bench.compare.meter import Meter, url
from taskiq.serializers import ORJSONSerializer
from taskiq_redis import RedisStreamBroker

meter = Meter()
broker = RedisStreamBroker(url(), consumer_id="0").with_serializer(ORJSONSerializer())


@broker.task("noop")
async def noop(text: str) -> None:
    """Do nothing."""
    meter.count()


@broker.task("ping")
async def ping(text: str) -> None:
    """Say how long it took to begin."""
    meter.ping(text)


@broker.task("hang")
async def hang(text: str) -> None:
    """Never return, the first time."""
    if meter.hangs():
        await asyncio.sleep(600)


class Producer:
    """Submits through a pool of connections."""

    bulk = 100
    _tasks = {"noop": noop, "ping": ping, "hang": hang}  # noqa: RUF012

    async def open(self) -> None:
        """Connect."""
        await broker.startup()

    async def setup(self) -> None:
        """Nothing to make."""

    async def one(self, task: str, text: str) -> None:
        """In the server's memory when it returns."""
        await self._tasks[task].kiq(text)

    async def many(self, jobs: int) -> None:
        """All at once."""
        await asyncio.gather(*(noop.kiq(TEXT) for _ in range(jobs)))

    async def close(self) -> None:
        """Disconnect."""
        await broker.shutdown()


if __name__ == "__main__":
    drive(Producer(), uvloop.run)
