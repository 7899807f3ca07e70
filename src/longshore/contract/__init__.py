"""The engine contract: what every store must do, grouped by who asks for it.

A producer submits, a worker holds a Session that a Keeper guards, the scheduler is a Steward,
people look at Jobs and change them and keep what they configure as Records, the API counts
requests with Counters, relays read an Outbox, and an Audit log says who did what.
Semantics live in `longshore.testing.contract`, which every engine must pass;
`docs/architecture/exchange.md` walks the hard cases on paper.

Calls are batch-first: one job is a list of one. A call that returns is durable. Every call
either applies whole or raises a LongshoreError and applies nothing, with one exception that no
network allows to avoid: an answer may be lost. So every call may be sent again unchanged.
"""

from collections.abc import Awaitable, Sequence
from typing import Protocol

from longshore.contract.audit import Audit
from longshore.contract.counters import Counters
from longshore.contract.maintenance import DueSchedules
from longshore.contract.ordering_keys import OrderingKeys
from longshore.contract.outbox import Outbox
from longshore.contract.records import Records
from longshore.contract.sessions import (
    Completion,
    PromptSession,
    Session,
    StandaloneSession,
    TransactionalSession,
    Wakeup,
)
from longshore.core.capabilities import Traits
from longshore.core.job import (
    Attempt,
    Held,
    Job,
    JobId,
    NewJob,
    Report,
    Settlement,
    Submitted,
)
from longshore.core.responses import Exchanged, Lapsed, Promoted, Reference, Renewed
from longshore.core.retention import Retention
from longshore.core.schedule import Firing
from longshore.core.state import JobChange
from longshore.core.view import (
    Fleet,
    JobFilter,
    Losses,
    Page,
    QueueCounts,
    SessionView,
)

__all__ = [
    "Audit",
    "Completion",
    "Counters",
    "DueSchedules",
    "Engine",
    "Exchanged",
    "Fleet",
    "JobChange",
    "JobFilter",
    "JobStore",
    "Jobs",
    "Keeper",
    "Lapsed",
    "Losses",
    "OrderingKeys",
    "Outbox",
    "Page",
    "Producer",
    "Promoted",
    "PromptSession",
    "QueueCounts",
    "Records",
    "Reference",
    "Renewed",
    "Report",
    "Retention",
    "Session",
    "SessionView",
    "StandaloneSession",
    "Steward",
    "Traits",
    "TransactionalProducer",
    "TransactionalSession",
    "Wakeup",
]


class Producer(Protocol):
    """Puts jobs in."""

    async def submit(
        self,
        jobs: Sequence[NewJob],
        *,
        independent: bool = False,
        max_wait: float | None = None,
    ) -> list[Submitted]:
        """Store the jobs durably, and answer for each, in order.

        Sending a job again (same id) is answered `repeated`. Ranks follow the order of
        arrival: a job whose submit was answered before another's was called goes first.
        One job for which a queue has no room, or whose key someone holds, refuses the whole
        call with an error, and nothing is stored. Not if they are `independent`: then it is
        answered `full` or `held`, and the others are stored.
        Who holds a key, or on some engines the whole store, is waited for as long as the engine
        sees fit, but `max_wait` seconds at most.
        """
        ...


class TransactionalProducer(Protocol):
    """An engine with the trait `transactional_submit`."""

    def submit_on(
        self, connection: object, jobs: Sequence[NewJob]
    ) -> list[Submitted] | Awaitable[list[Submitted]]:
        """Submit inside the caller's open transaction: the jobs exist exactly if it commits.

        A connection that does not lead to this engine's store is a ConfigError. That, and a
        QueueFullError, come before anything is written.
        """
        ...


class Keeper(Protocol):
    """What the process beside a worker asks for. It knows a session by its token alone."""

    async def renew(self, token: int) -> Renewed:
        """Push a session's end a full lease into the future, or raise LeaseLostError.

        For a worker that may be too busy to. It hears of cancels and claims itself.
        """
        ...

    async def held(self, token: int) -> list[Held] | None:
        """All that a session holds, live or lapsed; None when it has ended."""
        ...

    async def end_session(
        self, token: int, settlements: Sequence[Settlement], *, grace: int | None = None
    ) -> int:
        """End a session whose worker is gone, and settle what it held; how many jobs that were.

        Without `grace` the worker is known to be dead. With it, nothing is done unless the
        lease ended more than `grace` ago by the store's clock. 0 when the session has ended
        already, or was renewed meanwhile.
        What the settlements leave out is released; what the session does not hold stays as it
        is. From then on whoever still speaks for the session gets LeaseLostError.
        """
        ...


class Steward(Protocol):
    """Keeps the queue in order. Safe in any number of processes at once."""

    async def promote(self, *, limit: int) -> Promoted:
        """Make up to `limit` due jobs ready, earliest due first."""
        ...

    async def expired_sessions(self, *, grace: int, limit: int) -> list[Lapsed]:
        """Sessions whose lease ended more than `grace` ago, with all they held.

        Where the clock was set back, leases would end late by as much: each is cut to its
        full length from now, in which the living renew.
        """
        ...

    async def due_schedules(self, *, limit: int) -> DueSchedules:
        """Schedules whose `due` has come, the earliest first."""
        ...

    async def fire(self, firing: Firing) -> list[Submitted]:
        """Submit the firing's jobs and set the schedule's next due time, in one commit.

        Empty, and nothing applied, when `expected` is no longer the schedule's due time, or
        `version` no longer its record's: then it stays due. Each due time fires once. Over a
        maximum depth it stays due: QueueFullError, and nothing applied. The version of the
        schedule's record stays.
        """
        ...

    async def prune(self, retention: Retention, *, limit: int) -> int:
        """Delete up to `limit` things past their retention. A dead job leaves `job.purged`."""
        ...


class Jobs(Protocol):
    """What people and APIs ask for and order. `tenant=None` means any tenant."""

    async def get(self, job_id: JobId, *, tenant: str | None = None) -> Job:
        """The job, or JobNotFoundError."""
        ...

    async def find(self, which: JobFilter, *, limit: int, cursor: str | None = None) -> Page:
        """Up to `limit` jobs, newest first. A cursor of another filter is a ConfigError."""
        ...

    async def attempts(self, job_id: JobId, *, tenant: str | None = None) -> list[Attempt]:
        """The job's deliveries that ended, oldest first, or JobNotFoundError."""
        ...

    async def counts(
        self, *, tenant: str | None = None, may_estimate: bool = False
    ) -> list[QueueCounts]:
        """Every queue that has jobs or settings, by name.

        Counting takes longer the more there is. What may be an estimate takes a moment
        however much there is, and is exact where thousands wait and not millions; one
        tenant's jobs are counted in any case.
        """
        ...

    async def sessions(self) -> Fleet:
        """The sessions that hold a lease, oldest first, and how many workers vanished."""
        ...

    async def change(
        self,
        change: JobChange,
        job_ids: Sequence[JobId],
        *,
        reason: str = "",
        tenant: str | None = None,
        independent: bool = False,
    ) -> list[Job]:
        """Change jobs in one commit, and leave a record of it in the audit log.

        `cancel`: what waits ends; the holder of what runs is asked to stop it, and to ask again
        is harmless. `retry`: scheduled jobs are ready now. `replay`: dead or cancelled jobs are
        ready again, with failures, crashes and lapses at 0. `purge`: finished jobs are deleted,
        leaving `job.purged` events that hold their payloads and say who it was.
        All or none: JobNotFoundError or IllegalTransitionError leave everything as it was. With
        `independent`, jobs that are gone or in another state are left out. Returns the jobs as
        they are now, in the order of the ids; those that were deleted as they last were.
        """
        ...

    async def drain_session(self, token: int) -> None:
        """Ask a worker to drain; its next renewal tells it."""
        ...


class JobStore(Producer, Keeper, Protocol):
    """What a program needs that submits jobs and runs them.

    An engine is one, and so is a service in front of an engine.
    """

    @property
    def traits(self) -> Traits:
        """The promises that differ between engines."""
        ...

    @property
    def url(self) -> str:
        """Where the store is, without secrets."""
        ...

    async def open_session(
        self,
        *,
        worker: str,
        queues: Sequence[str],
        types: Sequence[str],
        lease: int,
        owner: str = "",
    ) -> Session:
        """Take a lease over jobs of `types`. `owner`, for whom a service asks, is only kept."""
        ...

    async def attach_session(self, token: int) -> Session:
        """A session that anyone opened, for many processes at once, or LeaseLostError."""
        ...

    async def now(self) -> int:
        """The engine's clock, microseconds since the epoch."""
        ...

    async def ping(self) -> None:
        """Return if this code may write to the store, else raise an EngineError.

        SchemaError when the schema is not, or will soon not be, one that it can work on.
        """
        ...

    async def close(self) -> None:
        """Finish what was accepted and release everything. Safe to call twice."""
        ...


class Engine(JobStore, Steward, Jobs, OrderingKeys, Records, Counters, Outbox, Audit, Protocol):
    """A store that keeps every promise above."""

    async def owner_of(self, token: int) -> str | None:
        """Whom the session was opened for; None when there is none with this token."""
        ...

    async def migrate(self, *, max_wait: float = 60.0) -> list[str]:
        """Bring the schema up to date; the names of the migrations applied. Safe to repeat.

        Workers of older code that cannot go on are asked to leave by their next `ping`;
        EngineBusyError when they, or others in the way, are there after `max_wait` seconds.
        """
        ...
