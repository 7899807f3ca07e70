"""The part of the engine contract that a worker holds."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol

import msgspec

from longshore.core.job import Attempt, JobId, Report, Settlement
from longshore.core.responses import Exchanged, Reference, Renewed

__all__ = [
    "Completion",
    "PromptSession",
    "Session",
    "StandaloneSession",
    "TransactionalSession",
    "Wakeup",
]

Wakeup = Literal["work", "cancel"]
"""What a session waits for."""


class Session(Protocol):
    """A worker process's standing with the engine: one lease over all the jobs it holds."""

    @property
    def token(self) -> int:
        """Fences the session: grows with every session ever opened on this store."""
        ...

    @property
    def lease(self) -> int:
        """How long the session lives without a renewal, in microseconds."""
        ...

    async def exchange(
        self,
        number: int,
        *,
        started: Sequence[Reference] = (),
        progress: Sequence[Report] = (),
        settlements: Sequence[Settlement] = (),
        want: int = 0,
        queues: Sequence[str] | None = None,
    ) -> Exchanged:
        """Record starts, settle what finished and claim up to `want` jobs, in one commit.

        `number` grows by one with each exchange, from 1. The last number may be sent again,
        with the same content: it returns the same claims and settles nothing twice. `queues`
        are drained in their order (default: all of the session). Raises, and applies nothing:
        QueueNotOpenedError when one of them is not the session's, in which case the number is
        not used up, and LeaseLostError when the session is no longer live.

        Of each job the last report of `progress` is kept, and each is told as an event; what
        reports has started, and what is settled in the same call reported before. A report of
        a claim that is not held changes nothing.
        """
        ...

    async def renew(
        self,
        *,
        number: int = 0,
        held: Sequence[Reference] | None = None,
        started: Sequence[Reference] = (),
    ) -> Renewed:
        """Push the lease's end a full lease into the future, or raise LeaseLostError.

        With `held`, everything the worker holds, both sides are compared: claims handed out
        up to exchange `number` that the worker does not hold go back to the queue, uncharged.
        """
        ...

    async def wait(self, seconds: float, *, until: Wakeup = "work") -> None:
        """Return when it may have come, after `seconds` at the latest.

        `work`: jobs to claim. `cancel`: a held job may have to be cancelled; which one the next
        exchange tells. Without the trait `pushes_wakeups`, and while wake-ups are lost, only
        exchanges and renewals tell.
        """
        ...

    async def close(self) -> None:
        """End the lease; what is still held goes back to the queue, uncharged."""
        ...


class PromptSession(Session, Protocol):
    """A session of an engine with the trait `claims_at_wakeup`."""

    async def claim_at_wakeup(
        self, number: int, *, want: int, queues: Sequence[str] | None, seconds: float
    ) -> Exchanged | None:
        """Exchange `number`, which claims up to `want` jobs, begun by the next wake-up.

        At once, if work may have arrived since the last exchange that wanted any was begun.
        None, and the number is not used, when `seconds` are over or `cancel_wait` was called
        before.
        Whoever gets no answer may send the number again as an exchange that only claims.
        """
        ...

    def cancel_wait(self) -> None:
        """Let `claim_at_wakeup` return, unless its exchange has begun."""
        ...


class StandaloneSession(Session, Protocol):
    """A session of an engine without the trait `maintenance`: it is all that its worker has."""

    async def attempts(self, job_id: JobId) -> list[Attempt]:
        """The ended deliveries of a job that the session holds, or JobNotFoundError."""
        ...

    async def has_waiting_jobs(self) -> bool:
        """Whether ready jobs of its queues and types wait longer than it takes to claim one."""
        ...


class Completion(msgspec.Struct, eq=False):
    """A handler's open transaction, which ends its job if it commits."""

    connection: Any
    """On the engine's own store, for the handler's statements."""
    result: bytes | None = None
    """What is stored as the job's result in the same commit."""
    is_committed: bool = False


class TransactionalSession(Session, Protocol):
    """A session of an engine with the trait `transactional_completion`."""

    def transaction(
        self, reference: Reference, *, started_at: int
    ) -> AbstractAsyncContextManager[Completion]:
        """A transaction for a held, running job; at the block's end both succeed or neither.

        From the commit on the job has succeeded, whatever becomes of this session, and every
        settlement that is sent for it later is accepted and changes nothing. An error in the
        block rolls back. Raises LeaseLostError, with everything rolled back, when the job is
        no longer this session's.
        """
        ...
