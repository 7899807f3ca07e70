"""PgQueuer on PostgreSQL.

Settings: https://github.com/janbjorge/pgqueuer/blob/main/docs/guides/performance-tuning.md and
https://github.com/janbjorge/pgqueuer/blob/main/docs/comparisons/benchmarks.md: asyncpg and
uvloop, a connection for each queue manager, a larger batch for short jobs, `pgq autovac`,
durability `durable` since all others here are.
"""

import asyncio
import sys

import asyncpg
import uvloop
from bench.compare.drive import TEXT, drive
from bench.compare.meter import Meter, url
from pgqueuer import AsyncpgDriver, Job, PgQueuer, Queries

meter = Meter()
_BATCH = 500


async def work() -> None:
    """One queue manager, with a connection of its own."""
    worker = PgQueuer(AsyncpgDriver(await asyncpg.connect(url())))

    @worker.entrypoint("noop")
    async def noop(job: Job) -> None:
        meter.count()

    @worker.entrypoint("ping")
    async def ping(job: Job) -> None:
        meter.ping((job.payload or b"").decode())

    @worker.entrypoint("hang")
    async def hang(job: Job) -> None:
        if meter.hangs():
            await asyncio.sleep(600)

    await worker.run(batch_size=_BATCH)


class Producer:
    """Submits on one connection."""

    bulk = 1_000

    async def open(self) -> None:
        """Connect."""
        self._connection = await asyncpg.connect(url())
        self._queries = Queries(AsyncpgDriver(self._connection))

    async def setup(self) -> None:
        """`pgq install` and `pgq autovac`."""
        await self._queries.install()
        await self._queries.optimize_autovacuum()

    async def one(self, task: str, text: str) -> None:
        """Durable when it returns."""
        await self._queries.enqueue(task, text.encode())

    async def many(self, jobs: int) -> None:
        """One statement."""
        await self._queries.enqueue(["noop"] * jobs, [TEXT.encode()] * jobs, [0] * jobs)

    async def close(self) -> None:
        """Disconnect."""
        await self._connection.close()


if __name__ == "__main__":
    if sys.argv[1] == "work":
        uvloop.run(work())
    else:
        drive(Producer(), uvloop.run)
