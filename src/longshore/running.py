"""The job that is running here: what a handler can see of it."""

from contextvars import ContextVar
from typing import Protocol

from longshore.core import ids
from longshore.core.job import Claim
from longshore.errors import LongshoreError

__all__ = ["CURRENT", "RunningJob", "Slot", "current_job"]


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


class RunningJob:
    """The job a handler is running for."""

    __slots__ = ("_claim", "_slot")

    def __init__(self, slot: Slot, claim: Claim) -> None:
        self._slot = slot
        self._claim = claim

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
    def trace(self) -> str | None:
        """W3C traceparent of whoever submitted it."""
        return self._claim.trace

    @property
    def deadline(self) -> float:
        """When the handler will be stopped, on `time.monotonic()`; infinity for never."""
        return self._slot.deadline

    @property
    def is_cancel_requested(self) -> bool:
        """Someone asked for this job to stop: a thread should look from time to time."""
        return self._slot.cancel_requested


def current_job() -> RunningJob:
    """The job whose handler is calling. Outside of a handler a LongshoreError."""
    slot = CURRENT.get()
    claim = slot.claim if slot is not None else None
    if slot is None or claim is None:
        raise LongshoreError("no job is running here; current_job() is for handlers")
    return RunningJob(slot, claim)
