"""What people see of the queue, and how they say which part of it."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from longshore.core.job import Job, JobId
from longshore.core.state import JobChange, State

__all__ = [
    "BrokenRecord",
    "Fleet",
    "JobFilter",
    "JobOrder",
    "Losses",
    "Page",
    "Pause",
    "QueueCounts",
    "SessionView",
]


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs to list. None means any."""

    tenant: str | None = None
    queue: str | None = None
    type: str | None = None
    state: State | None = None
    tag: str | None = None


class JobOrder(NamedTuple):
    """A change of jobs that somebody wants."""

    change: JobChange
    job_ids: Sequence[JobId]
    reason: str
    tenant: str | None
    independent: bool
    """Jobs that are gone or in another state are left out."""
    actor: str
    """Who wants it."""


class Page(msgspec.Struct, frozen=True):
    """Some jobs, newest first, and where the next page begins."""

    jobs: list[Job]
    cursor: str | None


class BrokenRecord(msgspec.Struct, frozen=True):
    """A stored record that cannot be decoded, and is left out of what is read."""

    kind: str
    """schedule, queue, breaker, tenant or webhook."""
    name: str
    tenant: str | None
    problem: str

    @property
    def words(self) -> str:
        """What is broken, and how."""
        whose = "" if self.tenant in (None, self.name) else f" of tenant {self.tenant!r}"
        return f"{self.kind} {self.name!r}{whose} cannot be decoded: {self.problem}"


class Pause(msgspec.Struct, frozen=True):
    """What is not handed out: a queue, a type, or a type in one queue. Null means any."""

    queue: str | None
    type: str | None

    @property
    def words(self) -> str:
        """What is paused: `type mail.send in queue bulk`."""
        words = [f"type {self.type}"] * (self.type is not None)
        words += [f"queue {self.queue}"] * (self.queue is not None)
        return " in ".join(words)

    @property
    def name(self) -> str:
        """The name of its record: queue and type, `*` for any."""
        return f"{self.queue or '*'} {self.type or '*'}"

    @staticmethod
    def named(name: str) -> "Pause":
        """The pause whose record has this name; ValueError where no pause can have it."""
        queue, space, type = name.partition(" ")
        pause = Pause(None if queue == "*" else queue, None if type == "*" else type)
        if not space or "" in (queue, type) or " " in type or pause == Pause(None, None):
            raise ValueError(
                "the name of a pause says which queue or type: both with a space between, "
                "and * for any"
            )
        return pause


class QueueCounts(msgspec.Struct, frozen=True, kw_only=True):
    """One queue at a glance."""

    queue: str
    is_paused: bool = False
    ready: int = 0
    parked: int = 0
    """Of the ready ones, those that may not be taken now."""
    scheduled: int = 0
    buffered: int = 0
    """Claimed, waiting in a worker's buffer, as far as the engine knows."""
    running: int = 0
    """Claimed, buffered ones included."""
    succeeded: int = 0
    dead: int = 0
    cancelled: int = 0
    pruned: int = 0
    """Ended, and deleted when their time was over: with the three above, what ended in all.
    Told of all tenants together, and forgotten some time after nothing is left that ended."""
    oldest_ready_at: int | None = None
    is_estimate: bool = False
    """So many wait that ready, parked and scheduled are estimates, and the oldest is that of
    the fronts."""

    @property
    def has_jobs(self) -> bool:
        """Whether a job is in the queue, finished or not; without one, it only has settings."""
        ended = self.succeeded + self.dead + self.cancelled
        return self.ready + self.scheduled + self.running + ended > 0


class Losses(msgspec.Struct, frozen=True):
    """What vanished since the store was made."""

    workers: int = 0
    """Sessions that ended in a crash, or in silence, and held jobs."""
    jobs: int = 0
    """That were taken back from them."""


class Fleet(msgspec.Struct, frozen=True):
    """Who works, at one moment."""

    now: int
    """The engine's clock."""
    sessions: list["SessionView"]
    """Those that hold a lease, oldest first."""
    losses: Losses


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """A live session, as people see it."""

    token: int
    worker: str
    queues: tuple[str, ...]
    types: tuple[str, ...]
    opened_at: int
    renewed_at: int
    expires_at: int
    holding: int
    is_quiet: bool = False
