"""A worker whose jobs do nothing but write down which due time they ran for."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from longshore.app import Longshore
from longshore.contract import Engine
from longshore.job_context import current_job
from longshore.scheduler.promote import Promoter
from longshore.worker.settings import WorkerSettings
from longshore.worker.worker import Worker
from longshore_lab.ledger import Book, Ledger
from longshore_lab.records import DueRan
from longshore_lab.trial import Trial

__all__ = ["TYPE", "keep_book", "keeping_book"]

TYPE = "lab.due"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def keep_book(trial: Trial, engine: Engine, book: Ledger) -> None:
    """Run what schedules fire until SIGTERM. Nobody harms a clerk, so each job runs once."""
    app = Longshore(trial.url)

    app.task(name=TYPE, keep_result=False)(keeping_book(book))
    worker = Worker(
        engine,
        app.registry(),
        WorkerSettings(name=book.actor, concurrency=trial.concurrency),
        ticks=[("promote", Promoter(engine).tick)],
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.drain)
    await worker.run()


def keeping_book(book: Book) -> Callable[[], Awaitable[None]]:
    """The job of a clerk: it writes down which due time it ran for."""

    async def note() -> None:
        job = current_job()
        due = ((job.due or _EPOCH) - _EPOCH) // timedelta(microseconds=1)
        book.write(DueRan(book.now(), job.schedule or "", due, job.id, job.delivery))

    return note
