"""Procrastinate on PostgreSQL.

Settings: https://procrastinate.readthedocs.io/en/stable/howto/basics/worker.html (two workers
of 30 jobs at a time; LISTEN is on by default), .../howto/basics/batch_defer.html
(batch_defer_async) and .../howto/production/delete_finished_jobs.html (deleted on success).
"""

import asyncio
import sys

import uvloop
from bench.compare.drive import TEXT, drive
from bench.compare.meter import Meter, url
from procrastinate import App, PsycopgConnector

meter = Meter()
app = App(connector=PsycopgConnector(conninfo=url(), max_size=40))


@app.task(name="noop")
async def noop(text: str) -> None:
    """Do nothing."""
    meter.count()


@app.task(name="ping")
async def ping(text: str) -> None:
    """Say how long it took to begin."""
    meter.ping(text)


@app.task(name="hang")
async def hang(text: str) -> None:
    """Never return, the first time."""
    if meter.hangs():
        await asyncio.sleep(600)


async def work() -> None:
    """One worker."""
    async with app.open_async():
        await app.run_worker_async(concurrency=30, delete_jobs="successful")


class Producer:
    """Submits through a pool of connections."""

    bulk = 1_000

    async def open(self) -> None:
        """Connect."""
        await app.open_async()

    async def setup(self) -> None:
        """`procrastinate schema --apply`."""
        await app.schema_manager.apply_schema_async()

    async def one(self, task: str, text: str) -> None:
        """Durable when it returns."""
        await app.tasks[task].defer_async(text=text)

    async def many(self, jobs: int) -> None:
        """One statement."""
        await noop.batch_defer_async(*({"text": TEXT} for _ in range(jobs)))

    async def close(self) -> None:
        """Disconnect."""
        await app.close_async()


if __name__ == "__main__":
    if sys.argv[1] == "work":
        uvloop.run(work())
    else:
        drive(Producer(), uvloop.run)
