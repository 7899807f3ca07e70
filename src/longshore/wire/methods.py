"""Every other call of the contract as a route of its own, for Longshore's own processes.

A request's fields are the parameters of the engine's method, and its answer what the method
returns, in JSON with bytes as base64. Sessions travel as `longshore.wire.sessions` has it.
"""

from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta

from longshore.core.account import ApiKey, Scope, Tenant
from longshore.core.audit import Entry, Standing
from longshore.core.consumer import Consumer, Quarantined
from longshore.core.event import EventBatch, Span
from longshore.core.flow import (
    BreakerFlow,
    BreakerSettings,
    Layer,
    QueueFlow,
    QueueSettings,
)
from longshore.core.job import Attempt, Job, JobId, NewJob, Submitted
from longshore.core.line import Line
from longshore.core.schedule import Schedule
from longshore.core.view import (
    BrokenRecord,
    JobFilter,
    Losses,
    Page,
    Pause,
    QueueCounts,
    SessionView,
)
from longshore.wire.requests import (
    AddKey,
    BlockedLines,
    Counts,
    EntriesAfter,
    EntriesBefore,
    Limit,
    OfKey,
    OfLine,
    PutTenant,
    Request,
    RotateKey,
)

__all__ = ["METHODS", "PATH", "Method"]

PATH = "/v1/engine/"

Token = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Ids = Annotated[list[JobId], Meta(max_length=100_000)]


class Submit(Request, frozen=True):
    """Jobs, with the ids that make sending them twice harmless."""

    jobs: Annotated[list[NewJob], Meta(max_length=100_000)]
    apart: bool = False
    patience: Annotated[float, Meta(ge=0, le=60)] | None = None
    """Seconds to wait for who holds a key."""


class OfSession(Request, frozen=True):
    """Names a session by its token."""

    token: Token


class Limited(Request, frozen=True):
    """How many at most."""

    limit: Limit


class OfJob(Request, frozen=True):
    """Names a job."""

    job_id: JobId
    tenant: str | None = None


class Find(Request, frozen=True):
    """Which jobs to list."""

    which: JobFilter
    limit: Limit
    cursor: str | None = None


class OfTenant(Request, frozen=True):
    """Whose; null: anyone's."""

    tenant: str | None = None


class Cancel(Request, frozen=True):
    """Jobs, and why."""

    job_ids: Ids
    reason: str
    tenant: str | None = None


class OfJobs(Request, frozen=True):
    """Names jobs."""

    job_ids: Ids
    tenant: str | None = None


class Purge(Request, frozen=True):
    """Jobs to delete. The service says who deletes them, by the key."""

    job_ids: Ids
    tenant: str | None = None


class OfPause(Request, frozen=True):
    """A queue, a type, or a type in one queue."""

    queue: str | None = None
    type: str | None = None


class PutSchedule(Request, frozen=True):
    """A schedule, and how it stands."""

    schedule: Schedule
    seen: Schedule | None = None


class DeleteSchedule(Request, frozen=True):
    """Names a schedule."""

    name: str
    tenant: str = "default"


class Events(Request, frozen=True):
    """Where to read on."""

    after: Token
    limit: Limit


class PutQueue(Request, frozen=True):
    """A layer of what is said of a queue, and how it stands."""

    name: str
    layer: Layer
    settings: QueueSettings
    seen: QueueSettings | None = None


class PutBreaker(Request, frozen=True):
    """A layer of what is said of a type's breaker, and how it stands."""

    type: str
    layer: Layer
    settings: BreakerSettings
    seen: BreakerSettings | None = None


class ResetBreaker(Request, frozen=True):
    """A type that has a breaker."""

    type: str


class Named(Request, frozen=True):
    """A name."""

    name: str


class Empty(Request, frozen=True):
    """No parameters."""


@dataclass(frozen=True, slots=True)
class Method:
    """One call of the contract, as both ends know it."""

    name: str
    """The engine's method."""
    request: type[Any]
    answer: Any
    scope: Scope
    is_fleetwide: bool = False
    """It concerns every tenant."""
    is_repeatable: bool = False
    """Asked again, it gives the same answer: an answer that was lost is asked for again."""

    @property
    def path(self) -> str:
        """Where it is asked."""
        return f"{PATH}{self.name}"


def _read(name: str, request: type[Any], answer: Any, *, fleetwide: bool = False) -> Method:
    return Method(name, request, answer, Scope.READ, fleetwide, True)


def _operate(name: str, request: type[Any], answer: Any, *, fleetwide: bool = False) -> Method:
    return Method(name, request, answer, Scope.OPERATE, fleetwide)


def _admin(name: str, request: type[Any], answer: Any, *, again: bool = False) -> Method:
    return Method(name, request, answer, Scope.ADMIN, True, again)


METHODS = {
    method.name: method
    for method in (
        Method("submit", Submit, list[Submitted], Scope.SUBMIT, False, True),
        _read("get", OfJob, Job),
        _read("find", Find, Page),
        _read("attempts", OfJob, list[Attempt]),
        _read("counts", Counts, list[QueueCounts]),
        _read("sessions", Empty, list[SessionView], fleetwide=True),
        _read("losses", Empty, Losses, fleetwide=True),
        _operate("cancel", Cancel, list[Job]),
        _operate("replay", OfJobs, list[Job]),
        _operate("retry_now", OfJobs, list[Job]),
        _operate("purge", Purge, int),
        _operate("pause", OfPause, None, fleetwide=True),
        _operate("resume", OfPause, None, fleetwide=True),
        _read("pauses", Empty, list[Pause]),
        _read("broken_records", Empty, list[BrokenRecord], fleetwide=True),
        _operate("quiet", OfSession, None, fleetwide=True),
        _operate("put_schedule", PutSchedule, bool),
        _read("schedules", OfTenant, list[Schedule]),
        _operate("delete_schedule", DeleteSchedule, None),
        Method("put_queue", PutQueue, bool, Scope.OPERATE, True, True),
        _read("queue_settings", Empty, list[QueueFlow]),
        Method("put_breaker", PutBreaker, bool, Scope.OPERATE, True, True),
        _read("breaker_settings", Empty, list[BreakerFlow]),
        Method("reset_breaker", ResetBreaker, None, Scope.OPERATE, True, True),
        _read("line", OfLine, Line | None),
        _read("blocked_lines", BlockedLines, list[Line]),
        _operate("release_line", OfLine, bool),
        _read("events", Events, list[EventBatch], fleetwide=True),
        _read("span", Empty, Span, fleetwide=True),
        _read("consumers", Empty, list[Consumer], fleetwide=True),
        _operate("delete_consumer", Named, bool, fleetwide=True),
        _read("quarantined", Limited, list[Quarantined], fleetwide=True),
        _admin("audit_entries", EntriesAfter, list[Entry], again=True),
        _admin("latest_entries", EntriesBefore, list[Entry], again=True),
        _admin("audit_standing", Empty, Standing, again=True),
        _admin("put_tenant", PutTenant, bool, again=True),
        _admin("get_tenant", Named, Tenant, again=True),
        _admin("tenants", Empty, list[Tenant], again=True),
        _admin("delete_tenant", Named, None),
        _admin("add_key", AddKey, ApiKey, again=True),
        _admin("keys", OfTenant, list[ApiKey], again=True),
        _admin("rotate_key", RotateKey, ApiKey),
        _admin("revoke_key", OfKey, ApiKey, again=True),
    )
}
