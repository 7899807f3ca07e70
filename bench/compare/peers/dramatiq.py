"""Dramatiq on Valkey.

Settings: https://dramatiq.io/guide.html and https://dramatiq.io/advanced.html: two processes
of eight threads, which is the default per process; it has no call for many jobs.
"""

import time

import dramatiq
from bench.compare.drive import TEXT, drive
from bench.compare.meter import Meter, url
from dramatiq.brokers.redis import RedisBroker

meter = Meter()
dramatiq.set_broker(RedisBroker(url=url()))


@dramatiq.actor
def noop(text: str) -> None:
    """Do nothing."""
    meter.count()


@dramatiq.actor
def ping(text: str) -> None:
    """Say how long it took to begin."""
    meter.ping(text)


@dramatiq.actor
def hang(text: str) -> None:
    """Never return, the first time."""
    if meter.hangs():
        time.sleep(600)


class Producer:
    """Submits on one connection."""

    bulk = 1_000
    _actors = {"noop": noop, "ping": ping, "hang": hang}  # noqa: RUF012

    async def open(self) -> None:
        """Connect with the first submit."""

    async def setup(self) -> None:
        """Nothing to make."""

    async def one(self, task: str, text: str) -> None:
        """In the server's memory when it returns."""
        self._actors[task].send(text)

    async def many(self, jobs: int) -> None:
        """One by one."""
        for _ in range(jobs):
            noop.send(TEXT)

    async def close(self) -> None:
        """Leave it to the end of the process."""


if __name__ == "__main__":
    drive(Producer())
