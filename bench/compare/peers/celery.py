"""Celery on Valkey.

Settings: https://docs.celeryq.dev/en/stable/userguide/optimizing.html (a large prefetch
multiplier for short tasks), .../userguide/configuration.html (no results, no rate limits) and
.../userguide/concurrency/index.html: two workers of the solo pool, one per core, which drained
three times as fast as `--concurrency 2` of the prefork pool. Workers do not talk to each other
(.../reference/cli.html, `--without-gossip`, `--without-mingle`). Tasks are acknowledged before
they run, which is the default. It has no call for many jobs.
"""

import time

from bench.compare.drive import TEXT, drive
from bench.compare.meter import Meter, url
from celery import Celery

meter = Meter()
app = Celery("compare", broker=url())
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=150,
    worker_disable_rate_limits=True,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
)


@app.task(name="noop")
def noop(text: str) -> None:
    """Do nothing."""
    meter.count()


@app.task(name="ping")
def ping(text: str) -> None:
    """Say how long it took to begin."""
    meter.ping(text)


@app.task(name="hang")
def hang(text: str) -> None:
    """Never return, the first time."""
    if meter.hangs():
        time.sleep(600)


class Producer:
    """Submits on one connection, kept open by Celery's pool."""

    bulk = 1_000

    async def open(self) -> None:
        """Connect with the first submit."""

    async def setup(self) -> None:
        """Nothing to make."""

    async def one(self, task: str, text: str) -> None:
        """In the server's memory when it returns."""
        app.tasks[task].delay(text)

    async def many(self, jobs: int) -> None:
        """One by one, on one producer of the pool."""
        with app.producer_pool.acquire(block=True) as producer:
            for _ in range(jobs):
                noop.apply_async((TEXT,), producer=producer)

    async def close(self) -> None:
        """Leave it to the end of the process."""


if __name__ == "__main__":
    drive(Producer())
