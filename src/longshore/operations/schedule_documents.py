"""Schedules as documents: what is sent, what is answered, and how one becomes the other."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from longshore.core import codec, cron, ids, schedule
from longshore.core.cron import Quirk
from longshore.core.schedule import CatchUp, Overlap, Schedule
from longshore.core.state import State
from longshore.operations.fields import (
    Attempts,
    Json,
    Name,
    Payload,
    Priority,
    Tags,
    Timestamp,
    instant,
    micros,
    moment,
    seconds,
    stored_json,
)

__all__ = [
    "Cron",
    "DueTime",
    "Every",
    "Preview",
    "ScheduleBody",
    "ScheduleDefinition",
    "ScheduleList",
    "ScheduleName",
    "SchedulePatch",
    "ScheduleView",
    "WholeSchedule",
    "Zone",
    "changed",
    "definition_of",
    "due_times",
    "local_time",
    "schedule_from",
    "schedule_of",
    "schedule_view",
    "whole_schedule",
]

_YEARS_10 = 315_360_000
_SHOWN = 5
"""Due times of a schedule that is looked at."""

ScheduleName = Annotated[
    str, Meta(min_length=1, max_length=200, pattern=r"\A[^\x00-\x1f\x7f]+\Z")
]
Cron = Annotated[str, Meta(max_length=200, examples=["*/5 * * * *", "@daily"])]
Every = Annotated[float, Meta(ge=0.1, le=_YEARS_10)]
Zone = Annotated[str, Meta(max_length=64, examples=["Europe/Berlin"])]
Timeout = Annotated[float, Meta(gt=0, le=_YEARS_10)]
Jitter = Annotated[float, Meta(ge=0, le=86_400)]
CatchUpLimit = Annotated[int, Meta(ge=1, le=1_000)]


class ScheduleDefinition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a schedule is to be: a cron expression in a time zone, or an interval."""

    type: Name
    """Of the jobs that it submits."""
    payload: Payload = {}
    cron: Cron | None = None
    """Five fields, six with seconds in front, or @daily and the like."""
    every_seconds: Every | None = None
    """An interval instead of a cron expression."""
    anchor: Timestamp | None = None
    """What an interval is counted from: 1970-01-01T00:00:00Z unless given."""
    timezone: Zone = "UTC"
    queue: Name = "default"
    priority: Priority = 5
    max_attempts: Attempts = 5
    timeout_seconds: Timeout | None = 300.0
    tags: Tags = ()
    catch_up: CatchUp = CatchUp.LATEST
    """Which of the due times that downtime missed still fire."""
    catch_up_limit: CatchUpLimit = 100
    overlap: Overlap = Overlap.ALLOW
    """What a due time does while the last job is live."""
    jitter_seconds: Jitter = 0
    """Each job runs up to this long after its due time."""
    is_paused: bool = False


class ScheduleBody(ScheduleDefinition, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schedule to create: a cron expression in a time zone, or an interval."""

    name: ScheduleName


class SchedulePatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change of a schedule; what is left out stays.

    A cron expression takes the place of an interval, and the other way round. With the same
    times it keeps its place; new times count from now.
    """

    type: Name | UnsetType = UNSET
    payload: Payload | UnsetType = UNSET
    cron: Cron | UnsetType = UNSET
    every_seconds: Every | UnsetType = UNSET
    anchor: Timestamp | UnsetType = UNSET
    timezone: Zone | UnsetType = UNSET
    queue: Name | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    max_attempts: Attempts | UnsetType = UNSET
    timeout_seconds: Timeout | UnsetType | None = UNSET
    tags: Tags | UnsetType = UNSET
    catch_up: CatchUp | UnsetType = UNSET
    catch_up_limit: CatchUpLimit | UnsetType = UNSET
    overlap: Overlap | UnsetType = UNSET
    jitter_seconds: Jitter | UnsetType = UNSET
    is_paused: bool | UnsetType = UNSET


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as it is stored."""

    name: str
    tenant: str
    type: str
    payload: Json
    cron: str | None
    every_seconds: float | None
    anchor: datetime
    timezone: str
    queue: str
    priority: int
    max_attempts: int
    timeout_seconds: float | None
    tags: tuple[str, ...]
    catch_up: CatchUp
    catch_up_limit: int
    overlap: Overlap
    jitter_seconds: float
    is_paused: bool
    next_due: datetime | None
    last_due: datetime | None
    last_job: str | None


class DueTime(msgspec.Struct, frozen=True):
    """A due time that is still to come."""

    due: datetime
    local: datetime
    """The same moment on the clock of the schedule's time zone."""
    quirk: Quirk | None
    """What a change of the clock makes of it."""


class WholeSchedule(ScheduleView, frozen=True, kw_only=True):
    """A schedule as it is stored, with its last job and its next due times."""

    last_job_state: State | None
    """Null: no job of it is kept."""
    coming: tuple[DueTime, ...]
    """The next due times; none while it is paused."""


class ScheduleList(msgspec.Struct, frozen=True):
    """Schedules, by name."""

    schedules: list[ScheduleView]
    cursor: str | None
    """Where the next page begins; null at the end."""


class Preview(msgspec.Struct, frozen=True):
    """The next due times."""

    timezone: str
    """Of the schedule."""
    due: list[DueTime]


def schedule_of(name: str, definition: ScheduleDefinition, tenant: str) -> Schedule:
    """The schedule that the document asks for, not checked."""
    fields = _said(definition, ScheduleDefinition.__struct_fields__)
    fields["anchor"] = fields["anchor"] or 0
    return Schedule(name=name, tenant=tenant, **fields)


def definition_of(wanted: Schedule) -> dict[str, Any]:
    """The schedule as the body of `PUT /v1/schedules/{name}`."""
    view = schedule_view(wanted)
    return {name: getattr(view, name) for name in ScheduleDefinition.__struct_fields__}


def changed(existing: Schedule, patch: SchedulePatch) -> Schedule:
    """The schedule with what the patch names in place of its own, not checked."""
    fields: dict[str, Any] = {}
    if patch.cron is not UNSET:
        fields = {"every": None, "anchor": 0}
    elif patch.every_seconds is not UNSET:
        fields = {"cron": None, "timezone": "UTC"}
    fields |= _said(patch, SchedulePatch.__struct_fields__)
    return msgspec.structs.replace(existing, **fields)


def schedule_view(it: Schedule) -> ScheduleView:
    """A schedule's document."""
    return ScheduleView(**_viewed(it))


def whole_schedule(it: Schedule, last_job_state: State | None, now: int) -> WholeSchedule:
    """A schedule's document, with its last job and its next due times."""
    coming = [] if it.is_paused else due_times(it, now, _SHOWN)
    return WholeSchedule(**_viewed(it), last_job_state=last_job_state, coming=tuple(coming))


def schedule_from(view: ScheduleView) -> Schedule:
    """The schedule of which this is the document."""
    return Schedule(**_said(view, ScheduleView.__struct_fields__))


def due_times(it: Schedule, after: int, count: int) -> list[DueTime]:
    """The first `count` due times later than `after`, paused or not."""
    times: Sequence[int] = schedule.preview(it, max(after, 0), count)
    return [
        DueTime(instant(due), local_time(instant(due), it.timezone), schedule.quirk(it, due))
        for due in times
    ]


def local_time(at: datetime, timezone: str) -> datetime:
    """The moment on the zone's clock, which knows the pass of an hour that comes twice."""
    try:
        return at.astimezone(cron.zone(timezone))
    except OverflowError:
        # In the last hours of the year 9999 the calendar of a zone in the east has ended.
        return at


def _viewed(it: Schedule) -> dict[str, Any]:
    return {
        "name": it.name,
        "tenant": it.tenant,
        "type": it.type,
        "payload": stored_json(it.payload),
        "cron": it.cron,
        "every_seconds": seconds(it.every),
        "anchor": instant(it.anchor),
        "timezone": it.timezone,
        "queue": it.queue,
        "priority": it.priority,
        "max_attempts": it.max_attempts,
        "timeout_seconds": seconds(it.timeout),
        "tags": it.tags,
        "catch_up": it.catch_up,
        "catch_up_limit": it.catch_up_limit,
        "overlap": it.overlap,
        "jitter_seconds": it.jitter / 1e6,
        "is_paused": it.is_paused,
        "next_due": moment(it.next_due),
        "last_due": moment(it.last_due),
        "last_job": None if it.last_job is None else ids.text(it.last_job),
    }


def _said(document: msgspec.Struct, names: Iterable[str]) -> dict[str, Any]:
    """What a document says, as the core has it; what it leaves out is left out."""
    said: dict[str, Any] = {}
    for name in names:
        value = getattr(document, name)
        if value is not UNSET:
            field, convert = _CONVERTED.get(name, (name, None))
            said[field] = value if value is None or convert is None else convert(value)
    return said


def _payload(value: Payload | msgspec.Raw) -> bytes:
    return bytes(value) if isinstance(value, msgspec.Raw) else codec.pack(value)


def _micros(value: float) -> int:
    return round(value * 1e6)


def _timeout(value: float) -> int:
    return max(_micros(value), 1)


_CONVERTED: dict[str, tuple[str, Callable[[Any], object]]] = {
    "payload": ("payload", _payload),
    "every_seconds": ("every", _micros),
    "anchor": ("anchor", micros),
    "timeout_seconds": ("timeout", _timeout),
    "jitter_seconds": ("jitter", _micros),
    "next_due": ("next_due", micros),
    "last_due": ("last_due", micros),
    "last_job": ("last_job", ids.parse),
}
