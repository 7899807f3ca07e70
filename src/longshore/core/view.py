"""What people see of the queue, and how they say which part of it."""

import msgspec

from longshore.core.job import Job
from longshore.core.state import State

__all__ = [
    "BrokenRecord",
    "JobFilter",
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


class Pause(msgspec.Struct, frozen=True):
    """What is not handed out: a queue, a type, or a type in one queue. None means any."""

    queue: str | None
    type: str | None


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


class Losses(msgspec.Struct, frozen=True):
    """What vanished since the store was made."""

    workers: int = 0
    """Sessions that ended in a crash, or in silence, and held jobs."""
    jobs: int = 0
    """That were taken back from them."""


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
