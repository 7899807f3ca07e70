"""Longshore, on PostgreSQL or on a SQLite file, as its own documents say.

Settings: docs/guides/workers.md and docs/reference/settings.md: two processes, 256 slots in
each, a scheduler beside them; the rest is the default.
"""

import asyncio
from contextlib import AsyncExitStack

from bench.compare.drive import TEXT, drive
from bench.compare.meter import Meter, url

from longshore import Longshore
from longshore.runtime.process import loop_factory

meter = Meter()
app = Longshore(url())


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


class Producer:
    """Submits through the public interface."""

    bulk = 1_000

    def __init__(self) -> None:
        self._app = AsyncExitStack()

    async def open(self) -> None:
        """Connect."""
        await self._app.enter_async_context(app)

    async def setup(self) -> None:
        """Make the tables."""
        await app.engine.migrate()

    async def one(self, task: str, text: str) -> None:
        """Durable when it returns."""
        await app.tasks[task].submit(text)

    async def many(self, jobs: int) -> None:
        """One call, one commit."""
        await app.submit_many([noop.spec(TEXT) for _ in range(jobs)])

    async def close(self) -> None:
        """Close the engine."""
        await self._app.aclose()


if __name__ == "__main__":
    drive(Producer(), asyncio.Runner(loop_factory=loop_factory()).run)
