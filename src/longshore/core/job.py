"""The nouns of the queue: what is submitted, claimed, settled and read back.

All times are integers, microseconds since the epoch on the engine's clock; durations are
microseconds too. `datetime` belongs to the edges.
"""

from enum import StrEnum
from typing import NewType

import msgspec

from longshore.core.state import State, Verb

__all__ = [
    "Attempt",
    "CheckedJob",
    "Claim",
    "Death",
    "Failure",
    "Held",
    "Job",
    "JobId",
    "NewJob",
    "Progress",
    "Report",
    "Settlement",
    "Submitted",
    "UniqueUntil",
    "Verdict",
]

JobId = NewType("JobId", bytes)
"""Sixteen bytes of a UUIDv7. `core.ids` turns it into text and back."""

DEFAULT_TIMEOUT_US = 300_000_000


class UniqueUntil(StrEnum):
    """How long a unique key keeps a second job out."""

    STARTED = "started"
    """While the job waits: scheduled or ready."""
    FINISHED = "finished"
    """While the job waits or runs."""


class NewJob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job as its producer sends it. The id makes sending it twice harmless."""

    id: JobId
    type: str
    payload: bytes = b"{}"
    """A JSON object: the task's arguments."""
    queue: str = "default"
    tenant: str = "default"
    priority: int = 5
    """1 is the most urgent, 9 the least."""
    delay: int = 0
    """Not before this long after the engine accepted it; ignored when `run_at` is given."""
    run_at: int | None = None
    max_attempts: int = 5
    """Counts the first run: 1 means never retry."""
    timeout: int | None = DEFAULT_TIMEOUT_US
    idempotency_key: str | None = None
    fingerprint: bytes = b""
    """Tells two uses of one idempotency key apart; see `core.codec.fingerprint`."""
    unique_key: str | None = None
    unique_until: UniqueUntil = UniqueUntil.FINISHED
    ordering_key: str | None = None
    trace: str | None = None
    """W3C traceparent of whoever submitted the job."""
    tags: tuple[str, ...] = ()
    by: str | None = None
    """Who submitted it, if its first event shall say so."""


class CheckedJob(NewJob, frozen=True, kw_only=True, gc=False):
    """A job whose fields and payload passed `core.submission.validate` where it was made.

    `core.submission.check` looks at every job that is not one of these. Only the SDK's options
    and the HTTP API's documents make them; what comes over a wire is decoded as a NewJob.
    """


class Verdict(StrEnum):
    """What was done with one submitted job."""

    ACCEPTED = "accepted"
    REPEATED = "repeated"
    """The same id, or the same idempotency key with the same content, was accepted before."""
    UNIQUE = "unique"
    """A live job holds the unique key; nothing was stored."""
    CONFLICT = "conflict"
    """The idempotency key belongs to a job with other content; nothing was stored."""
    TAKEN = "taken"
    """The id belongs to another tenant's job, of which nothing is said; nothing was stored."""
    FULL = "full"
    """There is no room in the queue, or in it for the tenant; nothing was stored. Only jobs
    that come apart hear it."""
    HELD = "held"
    """A submit with the same key has not ended yet; nothing was stored. Only jobs that come
    apart hear it."""


class Submitted(msgspec.Struct, frozen=True, gc=False):
    """The engine's answer for one submitted job; `id` is the job that now stands for it."""

    id: JobId
    verdict: Verdict = Verdict.ACCEPTED
    created_at: int = 0
    """Of an accepted or repeated job; 0 where nothing was stored."""
    run_at: int = 0
    """As the job was first accepted, for as long as an idempotency key remembers it; without
    a key a repeated one is told as it stands now."""

    @property
    def state(self) -> State:
        """Scheduled or ready, as the job was first accepted."""
        return State.READY if self.run_at == self.created_at else State.SCHEDULED


class Claim(msgspec.Struct, frozen=True, gc=False):
    """One claimed job, as light as the hot path needs it."""

    handle: int
    """Names the job inside its session; with `delivery` it names this claim of it."""
    delivery: int
    id: JobId
    type: str
    queue: str
    tenant: str
    payload: bytes
    priority: int
    attempt: int
    """Starts before this one."""
    failures: int
    crashes: int
    lapses: int
    max_attempts: int
    timeout: int | None
    created_at: int
    run_at: int
    """When it was or became due: for retries, the time the retry was scheduled for."""
    trace: str | None = None
    tags: tuple[str, ...] = ()


class Death(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The death of a worker, as one of the jobs that ran in it knows it."""

    beside: int = 0
    """How many other jobs ran in that worker."""
    victims: tuple[str, ...] = ()
    """The ids of those of the same tenant, or of the first of them."""
    in_child: bool = False
    """The job ran in a child process that cannot have done it: it proves nothing."""


class Failure(msgspec.Struct, frozen=True, gc=False):
    """Why an attempt ended badly."""

    # Built by `core.settle.failure`, which bounds its size.

    kind: str
    """The exception's name, or `timeout`, `crash`, `payload`, `result`."""
    message: str
    traceback: str = ""
    death: Death | msgspec.UnsetType = msgspec.UNSET
    """For a crash: the worker that died. Not set when the job's own process did."""
    put_off: int | msgspec.UnsetType = msgspec.UNSET
    """Microseconds that a retry waits beyond its backoff, because many failed."""


class Settlement(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How one claim ends: decided in `core.settle`, applied by an engine unless stale."""

    handle: int
    delivery: int
    verb: Verb
    delay: int = 0
    """For retry and snooze: due this long after the engine applied it."""
    charge: bool = False
    """Adds one to `failures`."""
    crash: bool = False
    """Adds one to `crashes`."""
    lapse: bool = False
    """Adds one to `lapses`."""
    started_at: int | None = None
    """None: the handler never started, so `attempt` does not grow."""
    finished_at: int | None = None
    result: bytes | None = None
    failure: Failure | None = None
    reason: str | None = None
    """Why the job is dead or cancelled."""


class Report(msgspec.Struct, frozen=True, gc=False):
    """How far a running handler says it is. Checked by `core.progress`."""

    handle: int
    delivery: int
    fraction: float
    """0 to 1."""
    message: str | None = None


class Progress(msgspec.Struct, frozen=True, gc=False):
    """The last report of a job's last delivery."""

    fraction: float
    """0 to 1."""
    message: str | None
    at: int
    """When the engine heard of it."""


class Held(msgspec.Struct, frozen=True, gc=False):
    """A job found in the hands of a session that is gone: what reclaim decides upon."""

    handle: int
    delivery: int
    id: JobId
    type: str
    queue: str
    tenant: str
    started_at: int | None
    """Null: it was never told that its handler had started."""
    attempt: int
    failures: int
    crashes: int
    lapses: int
    max_attempts: int
    cancel_requested: bool
    alone: bool
    """The session held nothing else."""
    trace: str | None = None


class Job(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Everything the engine knows of a job, for people and APIs."""

    id: JobId
    type: str
    queue: str
    tenant: str
    state: State
    priority: int
    payload: bytes
    run_at: int
    created_at: int
    max_attempts: int
    timeout: int | None
    delivery: int
    attempt: int
    failures: int
    crashes: int
    lapses: int
    started_at: int | None = None
    """Of the last attempt; None while a claimed job waits in a worker's buffer."""
    finished_at: int | None = None
    result: bytes | None = None
    failure: Failure | None = None
    """The last one."""
    reason: str | None = None
    parked: str | None = None
    """Why a ready job may not be taken now."""
    worker: str | None = None
    """Who holds it, while it is running."""
    cancel_requested: bool = False
    unique_key: str | None = None
    idempotency_key: str | None = None
    ordering_key: str | None = None
    trace: str | None = None
    tags: tuple[str, ...] = ()
    progress: Progress | None = None
    """How far it came in its last delivery, by its own account; None: it gave none."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One delivery in a job's history."""

    delivery: int
    attempt: int
    outcome: str
    """The event that ended it: succeeded, failed, snoozed, released, crashed, lapsed, …"""
    worker: str | None
    started_at: int | None
    finished_at: int | None
    failure: Failure | None = None
