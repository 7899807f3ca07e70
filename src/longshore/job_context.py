"""The job that is running here: what a handler can see of it."""

from collections.abc import Awaitable, Generator
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any, Protocol

from longshore.core import ids, progress, schedule_tags
from longshore.core.job import Claim
from longshore.errors import ConfigError, LongshoreError

__all__ = [
    "COMPLETER",
    "CURRENT",
    "REPORTER",
    "Completer",
    "Reporter",
    "RunningJob",
    "Slot",
    "current_job",
]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Slot(Protocol):
    """Room for one running job in a worker, as far as the job may see it."""

    @property
    def claim(self) -> Claim | None:
        """The job's claim; None while the room is empty."""
        ...

    @property
    def deadline(self) -> float:
        """On the monotonic clock; infinity for none."""
        ...

    @property
    def cancel_requested(self) -> bool:
        """The handler should stop."""
        ...


CURRENT: ContextVar[Slot | None] = ContextVar("longshore_current_slot", default=None)
"""Set by the worker around each handler."""


class Completer(Protocol):
    """Opens transactions that end running jobs."""

    def transaction(self, slot: Slot) -> AbstractAsyncContextManager[Any]:
        """A connection in a transaction that ends the job at the end of the block."""
        ...

    def keep(self, slot: Slot, result: object) -> None:
        """Store this as the job's result, in the commit of its transaction."""
        ...


COMPLETER: ContextVar[Completer | None] = ContextVar("longshore_completer", default=None)
"""Set once by the worker, for all its handlers."""


class Reporter(Protocol):
    """Takes what handlers say to the engine, and knows its time."""

    def report(self, slot: Slot, fraction: float, message: str | None) -> None:
        """Pass on how far a job is. Returns at once, from any thread."""
        ...

    def now(self) -> int:
        """The engine's clock, microseconds since the epoch."""
        ...


REPORTER: ContextVar[Reporter | None] = ContextVar("longshore_reporter", default=None)
"""Set once by the worker, for all its handlers."""


class _Noted:
    """Awaiting it lets others run; nothing depends on that."""

    def __await__(self) -> Generator[None]:
        yield


_NOTED = _Noted()


class RunningJob:
    """The job a handler is running for."""

    __slots__ = ("_claim", "_reports_to", "_slot")

    def __init__(self, slot: Slot, claim: Claim, reporter: Reporter | None = None) -> None:
        self._slot = slot
        self._claim = claim
        self._reports_to = reporter

    @property
    def id(self) -> str:
        """The job's id; the same over all its attempts."""
        return ids.text(self._claim.id)

    @property
    def type(self) -> str:
        """The task's type name."""
        return self._claim.type

    @property
    def queue(self) -> str:
        """The queue it came from."""
        return self._claim.queue

    @property
    def tenant(self) -> str:
        """Whose job it is."""
        return self._claim.tenant

    @property
    def attempt(self) -> int:
        """Counts from 1: which start of the job this is."""
        return self._claim.attempt + 1

    @property
    def max_attempts(self) -> int:
        """How many failures make the job dead."""
        return self._claim.max_attempts

    @property
    def failures(self) -> int:
        """Attempts that ended in an error or a timeout before this one."""
        return self._claim.failures

    @property
    def delivery(self) -> int:
        """Which claim of the job this is; with the id it names this very run."""
        return self._claim.delivery

    @property
    def tags(self) -> tuple[str, ...]:
        """What the producer tagged it with."""
        return self._claim.tags

    @property
    def schedule(self) -> str | None:
        """The name of the schedule that fired it; None if none did."""
        return schedule_tags.schedule_of(self._claim.tags)

    @property
    def due(self) -> datetime | None:
        """The due time it was fired for, in UTC; None if no schedule fired it.

        The same over all attempts, however late they are: a report on yesterday asks this what
        yesterday is.
        """
        return schedule_tags.due_of(self._claim.tags)

    @property
    def trace(self) -> str | None:
        """W3C traceparent of whoever submitted it."""
        return self._claim.trace

    @property
    def deadline(self) -> float:
        """When the handler will be stopped, on `time.monotonic()`; infinity for never."""
        return self._slot.deadline

    @property
    def time_left(self) -> float:
        """Seconds until the handler will be stopped, 0 past that; infinity for never."""
        return max(self._slot.deadline - monotonic(), 0.0)

    def now(self) -> datetime:
        """What time it is for the queue, in UTC: the engine's clock, not this machine's."""
        return _EPOCH + timedelta(microseconds=self._reporter().now())

    @property
    def is_cancel_requested(self) -> bool:
        """Someone asked for this job to stop: a thread should look from time to time."""
        return self._slot.cancel_requested

    def progress(self, fraction: float, message: str | None = None) -> Awaitable[None]:
        """Tell how far the job is: a number from 0 to 1, and up to 200 characters.

        `await job.progress(0.4, "resizing")`, or without `await` in a plain function. It costs
        next to nothing: the worker sends the latest word of all its jobs twice a second, the
        first and the last of each job for sure. LongshoreError for what is no such number.
        """
        self._reporter().report(self._slot, *progress.checked(fraction, message))
        return _NOTED

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """A database connection in a transaction that ends this job if it commits.

        `async with job.transaction() as connection:` What is written through the connection
        and the job's success are one commit, at the end of the block. An error in the block
        rolls it back. On PostgreSQL the connection is of asyncpg. On SQLite it is of sqlite3,
        and since nobody else can write meanwhile the block has two seconds. On an engine that
        cannot do this it is a ConfigError.
        """
        return self._completer().transaction(self._slot)

    def set_result(self, result: object) -> None:
        """The job's result, stored in the commit of its transaction.

        For inside the block: what the handler returns after its commit is not kept.
        """
        self._completer().keep(self._slot, result)

    def _reporter(self) -> Reporter:
        if self._reports_to is None:
            raise LongshoreError("only a job that a worker runs can report and ask the time")
        return self._reports_to

    def _completer(self) -> Completer:
        completer = COMPLETER.get()
        if completer is None:
            raise ConfigError("job.transaction() is for jobs that a worker runs")
        return completer


def current_job() -> RunningJob:
    """The job whose handler is calling. Outside of a handler a LongshoreError."""
    slot = CURRENT.get()
    claim = slot.claim if slot is not None else None
    if slot is None or claim is None:
        raise LongshoreError("no job is running here; current_job() is for handlers")
    return RunningJob(slot, claim, REPORTER.get())
