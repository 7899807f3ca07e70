"""One attempt while it runs: what the worker and the handler share about it."""

from enum import IntEnum
from typing import Protocol

import msgspec

from longshore.contract import Completion, Reference
from longshore.core.job import Claim, Settlement
from longshore.worker.registry import Handler

__all__ = ["Attempt", "Stop"]


class Stop(IntEnum):
    """Why a running handler was told to stop. The greater reason wins."""

    NO = 0
    DRAIN = 1
    """The worker is leaving: the job goes back uncharged."""
    TIMEOUT = 2
    """Its time is up: a failure."""
    CANCEL = 3
    """Someone asked for it: cancelled, unless the handler succeeds all the same."""
    CRASH = 4
    """It tried to end its worker from inside: a crash, whatever the handler does."""
    LOST = 5
    """The job is no longer this worker's: whatever the handler does is not settled."""


class Cancellable(Protocol):
    """A task, or a child process."""

    def cancel(self) -> object:
        """Tell the handler to stop."""
        ...


class Attempt(msgspec.Struct, gc=False, eq=False):
    """A claim and its handler, from start to outcome.

    The handler sees the claim, the deadline and the request to stop, through
    `longshore.job_context`. A struct because one is made for every job: 67 ns against 198 ns
    for a class with slots.
    """

    claim: Claim
    deadline: float
    """On the worker's monotonic clock; infinity for none."""
    handler: Handler
    started: float
    task: Cancellable | None = None
    """Runs the handler; None when a thread does."""
    cell: int = -1
    """Where the flight record tells of it; below 0: nowhere."""
    cancel_requested: bool = False
    stop: Stop = Stop.NO
    told: float = 0.0
    """When the handler was first told to stop."""
    tellings: int = 0
    """How often it was told."""
    is_start_known: bool = False
    """The engine has been told of the start."""
    is_progress_known: bool = False
    """The engine has been told of the first report."""
    finished: float = 0.0
    result: bytes | None = None
    settlement: Settlement | None = None
    """Set when the attempt ended other than by success."""
    completion: Completion | None = None
    """The handler's transaction, while it is open and after its commit."""

    def tell(self, why: Stop, now: float) -> None:
        """Tell the handler to stop: cancel the coroutine, raise the flag for the thread."""
        self.stop = max(self.stop, why)
        self.cancel_requested = True
        self.told = self.told or now
        self.tellings += 1
        if self.task is not None:
            self.task.cancel()

    def charge_crash(self) -> None:
        """Let the attempt end as a crash: its handler tried to end the worker from inside.

        May be called from any thread; the next sweep tells the handler.
        """
        if not self.finished:
            self.stop = max(self.stop, Stop.CRASH)

    @property
    def is_committed(self) -> bool:
        """The handler's transaction has ended the job well, whatever the handler does now."""
        return self.completion is not None and self.completion.is_committed

    @property
    def reference(self) -> Reference:
        """Names the claim inside its session."""
        return self.claim.handle, self.claim.delivery
