"""Every other call of the contract as a route of its own, for Longshore's own processes.

A request's fields are the parameters of the engine's method, and its answer what the method
returns, in JSON with bytes as base64. Sessions travel as `longshore.wire.sessions` has it.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from longshore.core.account import Access, ApiKey, Scope, Tenant
from longshore.core.answer import Lapsed, Promoted
from longshore.core.audit import Chained, Entry, Standing
from longshore.core.bucket import Borrowed
from longshore.core.consumer import Consumer, Cursor, Quarantined
from longshore.core.door import Refusal
from longshore.core.event import EventBatch, Span
from longshore.core.flow import (
    BreakerFlow,
    BreakerSettings,
    Layer,
    QueueFlow,
    QueueSettings,
)
from longshore.core.job import Attempt, Job, JobId, NewJob, Settlement, Submitted
from longshore.core.line import Line
from longshore.core.schedule import DueSchedule, Firing, Schedule
from longshore.core.view import (
    BrokenRecord,
    JobFilter,
    Losses,
    Page,
    Pause,
    QueueCounts,
    SessionView,
)
from longshore.core.webhook import Endpoint
from longshore.engine import Retention
from longshore.wire.requests import (
    AddKey,
    BlockedLines,
    Borrow,
    Chain,
    Counts,
    EnterWebhook,
    EntriesAfter,
    EntriesBefore,
    LeaveWebhook,
    Limit,
    Micros,
    Mute,
    NoteSubmits,
    NoteUse,
    OfKey,
    OfLine,
    OfWebhook,
    PutTenant,
    PutWebhook,
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


class Reclaim(Request, frozen=True):
    """A session that lapsed, and what becomes of its jobs."""

    token: Token
    settlements: list[Settlement]
    grace: Micros


class Limited(Request, frozen=True):
    """How many at most."""

    limit: Limit


class FindLapsed(Request, frozen=True):
    """Sessions that lapsed so long ago."""

    grace: Micros
    limit: Limit


class Fire(Request, frozen=True):
    """What to do for a due schedule."""

    firing: Firing


class Prune(Request, frozen=True):
    """What is past its retention."""

    retention: Retention
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


class TakeCursor(Request, frozen=True):
    """A consumer, who wants to read for it, and for how long."""

    consumer: Annotated[str, Meta(min_length=1, max_length=128)]
    holder: Annotated[str, Meta(min_length=1, max_length=256)]
    lease: Micros


class OfCursor(Request, frozen=True):
    """A cursor."""

    cursor: Cursor


class Unread(Request, frozen=True):
    """A cursor, and where to read on."""

    cursor: Cursor
    after: Token
    limit: Limit


class Advance(Request, frozen=True):
    """A cursor, how far its consumer has come, and what it set aside."""

    cursor: Cursor
    position: Token
    quarantined: Annotated[list[Quarantined], Meta(max_length=10_000)] = msgspec.field(
        default_factory=list[Quarantined]
    )


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
    is_for_workers: bool = False
    """Workers ask it too: whoever may work may ask it."""

    @property
    def path(self) -> str:
        """Where it is asked."""
        return f"{PATH}{self.name}"


def _read(name: str, request: type[Any], answer: Any, *, fleetwide: bool = False) -> Method:
    return Method(name, request, answer, Scope.READ, fleetwide, True)


def _look(name: str, request: type[Any], answer: Any) -> Method:
    """What workers look at before they reclaim, or when they are given nothing."""
    return Method(name, request, answer, Scope.READ, False, True, True)


def _operate(name: str, request: type[Any], answer: Any, *, fleetwide: bool = False) -> Method:
    return Method(name, request, answer, Scope.OPERATE, fleetwide)


def _work(name: str, request: type[Any], answer: Any, *, again: bool = False) -> Method:
    return Method(name, request, answer, Scope.WORK, True, again)


def _admin(name: str, request: type[Any], answer: Any, *, again: bool = False) -> Method:
    return Method(name, request, answer, Scope.ADMIN, True, again)


METHODS = {
    method.name: method
    for method in (
        Method("submit", Submit, list[Submitted], Scope.SUBMIT, False, True),
        _work("promote", Limited, Promoted),
        _work("lapsed", FindLapsed, list[Lapsed], again=True),
        _work("reclaim", Reclaim, int),
        _work("due_schedules", Limited, list[DueSchedule], again=True),
        _work("fire", Fire, list[Submitted]),
        _work("prune", Prune, int),
        _read("get", OfJob, Job),
        _look("find", Find, Page),
        _read("attempts", OfJob, list[Attempt]),
        _look("counts", Counts, list[QueueCounts]),
        _read("sessions", Empty, list[SessionView], fleetwide=True),
        _read("losses", Empty, Losses, fleetwide=True),
        _read("owner_of", OfSession, str | None, fleetwide=True),
        _operate("cancel", Cancel, list[Job]),
        _operate("replay", OfJobs, list[Job]),
        _operate("retry_now", OfJobs, list[Job]),
        _operate("purge", Purge, int),
        _operate("pause", OfPause, None, fleetwide=True),
        _operate("resume", OfPause, None, fleetwide=True),
        _look("pauses", Empty, list[Pause]),
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
        _work("take_cursor", TakeCursor, Cursor | None, again=True),
        _work("unread", Unread, list[EventBatch], again=True),
        _work("advance", Advance, None),
        _work("leave_cursor", OfCursor, None, again=True),
        _read("consumers", Empty, list[Consumer], fleetwide=True),
        _operate("delete_consumer", Named, bool, fleetwide=True),
        _work("mute", Mute, bool),
        _read("is_muted", Empty, bool, fleetwide=True),
        _read("quarantined", Limited, list[Quarantined], fleetwide=True),
        Method("put_webhook", PutWebhook, bool, Scope.OPERATE, True, True, True),
        _work("get_webhook", OfWebhook, Endpoint, again=True),
        _work("webhooks", OfTenant, list[Endpoint], again=True),
        _operate("delete_webhook", OfWebhook, None, fleetwide=True),
        _work("enter_webhook", EnterWebhook, Refusal | None, again=True),
        _work("leave_webhook", LeaveWebhook, None, again=True),
        _admin("note_submits", NoteSubmits, None),
        _work("chain", Chain, Chained),
        _admin("audit_entries", EntriesAfter, list[Entry], again=True),
        _admin("latest_entries", EntriesBefore, list[Entry], again=True),
        _admin("audit_standing", Empty, Standing, again=True),
        _admin("put_tenant", PutTenant, bool, again=True),
        _admin("get_tenant", Named, Tenant, again=True),
        _admin("tenants", Empty, list[Tenant], again=True),
        _admin("delete_tenant", Named, None),
        _admin("add_key", AddKey, ApiKey, again=True),
        _admin("keys", OfTenant, list[ApiKey], again=True),
        _admin("had_keys", Empty, bool, again=True),
        _admin("find_access", OfKey, Access | None, again=True),
        _admin("rotate_key", RotateKey, ApiKey),
        _admin("revoke_key", OfKey, ApiKey, again=True),
        _admin("note_use", NoteUse, None, again=True),
        _admin("borrow", Borrow, Borrowed),
        _look("now", Empty, int),
        _look("ping", Empty, None),
    )
}
