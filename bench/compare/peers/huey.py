"""Huey on Valkey.

Settings: https://huey.readthedocs.io/en/latest/consumer.html (`-k process -w 2`: a process
per core; a blocking pop is the default) and
https://huey.readthedocs.io/en/latest/api.html (`results=False`: results are not kept). It has
no call for many jobs.
"""

import time

from bench.compare.drive import TEXT, drive
from bench.compare.meter import Meter, url
from huey import RedisHuey

meter = Meter()
huey = RedisHuey("compare", url=url(), results=False)


@huey.task()
def noop(text: str) -> None:
    """Do nothing."""
    meter.count()


@huey.task()
def ping(text: str) -> None:
    """Say how long it took to begin."""
    meter.ping(text)


@huey.task()
def hang(text: str) -> None:
    """Never return, the first time."""
    if meter.hangs():
        time.sleep(600)


class Producer:
    """Submits on one connection."""

    bulk = 1_000
    _tasks = {"noop": noop, "ping": ping, "hang": hang}  # noqa: RUF012

    async def open(self) -> None:
        """Connect with the first submit."""

    async def setup(self) -> None:
        """Nothing to make."""

    async def one(self, task: str, text: str) -> None:
        """In the server's memory when it returns."""
        self._tasks[task](text)

    async def many(self, jobs: int) -> None:
        """One by one."""
        for _ in range(jobs):
            noop(TEXT)

    async def close(self) -> None:
        """Leave it to the end of the process."""


if __name__ == "__main__":
    # A task is known by its module's name; as `__main__` the consumer would not find it.
    from bench.compare.peers import huey as imported

    drive(imported.Producer())
