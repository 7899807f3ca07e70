"""A worker on a real engine in memory, with a clock that stands still."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random
from typing import Any

import msgspec

from longshore.contract import Engine
from longshore.core.job import Job, JobId
from longshore.engines import open_engine
from longshore.errors import PayloadError
from longshore.runtime.clock import Clock, ManualClock
from longshore.testing.factories import a_job, an_unchecked_job
from longshore.testing.flaky import FlakyEngine
from longshore.worker.registry import Execution, Handler, Registry
from longshore.worker.settings import WorkerSettings
from longshore.worker.shutdown import Ending
from longshore.worker.worker import Worker

__all__ = ["DEADLINE", "Workshop", "ended", "open_workshop", "within"]

DEADLINE = 10.0
"""Seconds after which a test that waits has failed."""


def encode(result: object) -> bytes:
    try:
        return msgspec.json.encode(result)
    except TypeError as error:
        raise PayloadError(str(error)) from error


def decode(payload: bytes) -> Any:
    try:
        return msgspec.json.decode(payload)
    except msgspec.DecodeError as error:
        raise PayloadError(str(error)) from error


class Workshop:
    """An engine, its clock, and the tasks a worker will know."""

    def __init__(self, engine: Engine, clock: Any) -> None:
        self.flaky = FlakyEngine(engine)
        self.engine = engine
        self.clock = clock
        self.registry = Registry()

    def task(self, name: str, run: Callable[[Any], Any], **options: Any) -> None:
        """Register a coroutine function, or a plain one for the threads."""
        is_async = asyncio.iscoroutinefunction(run)
        self.registry.add(
            Handler(
                type=name,
                decode=options.pop("decode", decode),
                run=run,
                execution=Execution.ASYNC if is_async else Execution.THREAD,
                encode_result=encode,
                **options,
            )
        )

    async def submit(self, name: str, payload: object = None, **changes: Any) -> JobId:
        """One job of this type."""
        raw = changes.pop("raw", None)
        make = a_job if raw is None else an_unchecked_job
        job = make(type=name, payload=raw or msgspec.json.encode(payload or {}), **changes)
        await self.engine.submit([job])
        return job.id

    async def job(self, job_id: JobId) -> Job:
        """What the engine knows of it."""
        return await self.engine.get(job_id)

    def worker(
        self, *, ticks: Sequence[Any] = (), clock: Clock | None = None, **settings: Any
    ) -> Worker:
        """A worker whose engine can be made flaky; retries come after exactly their backoff."""
        defaults: dict[str, Any] = {"name": "worker-1", "drain_timeout": timedelta(seconds=30)}
        return Worker(
            self.flaky,
            self.registry,
            WorkerSettings(**(defaults | settings)),
            clock=clock or self.clock,
            rng=Random(7),
            ticks=ticks,
        )

    async def work(self, **settings: Any) -> Worker:
        """Run everything that is ready, and return the worker that did."""
        worker = self.worker(**settings)
        await within(worker.run(until_idle=True))
        return worker

    @asynccontextmanager
    async def working(self, worker: Worker | None = None) -> AsyncIterator[Worker]:
        """A worker in the background; at the end it has to leave within the deadline."""
        worker = worker or self.worker()
        running = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            worker.stop_now()
            # Its last deadlines are on the clock that stands still.
            while not running.done():
                if isinstance(self.clock, ManualClock):
                    self.clock.advance(100_000)
                await asyncio.wait([running], timeout=0.02)
        await within(running)


async def within(awaitable: Awaitable[Any]) -> Any:
    """What it returns, before the test's deadline."""
    async with asyncio.timeout(DEADLINE):
        return await awaitable


async def ended(
    worker: Awaitable[Ending], clock: ManualClock, *, step: int = 100_000
) -> Ending:
    """Why the worker ended, with time passing meanwhile: by a step each 20 ms."""
    running = asyncio.ensure_future(worker)
    async with asyncio.timeout(DEADLINE):
        while not running.done():
            clock.advance(step)
            await asyncio.wait([running], timeout=0.02)
    return running.result()


@asynccontextmanager
async def open_workshop(
    clock: Clock | None = None, *, url: str = "sqlite://:memory:"
) -> AsyncIterator[Workshop]:
    clock = clock or ManualClock()
    engine = open_engine(url, clock=clock)
    await engine.migrate()
    try:
        yield Workshop(engine, clock)
    finally:
        await engine.close()
