"""Schedules as documents: what is sent, what is answered, and how one becomes the other."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from longshore.api.fields import (
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
)
from longshore.api.problems import invalid
from longshore.core import codec, cron, ids, submission
from longshore.core.job import JobId, NewJob
from longshore.core.schedule import CatchUp, Overlap, Schedule, validate
from longshore.errors import ConfigError, SubmitError

__all__ = [
    "Cron",
    "Every",
    "ScheduleBody",
    "ScheduleName",
    "SchedulePatch",
    "ScheduleView",
    "Zone",
    "changed",
    "checked",
    "schedule_of",
    "view",
]

_YEARS_10 = 315_360_000
_NOBODY = JobId(bytes(16))

ScheduleName = Annotated[
    str, Meta(min_length=1, max_length=200, pattern=r"\A[^\x00-\x1f\x7f]+\Z")
]
Cron = Annotated[str, Meta(max_length=200, examples=["*/5 * * * *", "@daily"])]
Every = Annotated[float, Meta(ge=0.1, le=_YEARS_10)]
Zone = Annotated[str, Meta(max_length=64, examples=["Europe/Berlin"])]
Timeout = Annotated[float, Meta(gt=0, le=_YEARS_10)]
Jitter = Annotated[float, Meta(ge=0, le=86_400)]
CatchUpLimit = Annotated[int, Meta(ge=1, le=1_000)]


class ScheduleBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schedule to create: a cron expression in a time zone, or an interval."""

    name: ScheduleName
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


def schedule_of(body: ScheduleBody, tenant: str) -> Schedule:
    """The schedule that the document asks for, or the problem with it."""
    return checked(
        Schedule(
            name=body.name,
            tenant=tenant,
            cron=body.cron,
            every=_micros(body.every_seconds),
            anchor=0 if body.anchor is None else micros(body.anchor),
            timezone=body.timezone,
            type=body.type,
            payload=codec.pack(body.payload),
            queue=body.queue,
            priority=body.priority,
            max_attempts=body.max_attempts,
            timeout=_timeout(body.timeout_seconds),
            tags=body.tags,
            catch_up=body.catch_up,
            catch_up_limit=body.catch_up_limit,
            overlap=body.overlap,
            jitter=round(body.jitter_seconds * 1e6),
            is_paused=body.is_paused,
        )
    )


def changed(existing: Schedule, patch: SchedulePatch) -> Schedule:
    """The schedule with what the patch names in place of its own, or the problem with it."""
    given = {
        name: value
        for name in SchedulePatch.__struct_fields__
        if (value := getattr(patch, name)) is not UNSET
    }
    if "cron" in given and "every_seconds" in given:
        raise invalid("/every_seconds", "cannot stand beside `cron`")
    fields: dict[str, Any] = {}
    if "cron" in given:
        fields = {"every": None, "anchor": 0}
    elif "every_seconds" in given:
        fields = {"cron": None, "timezone": "UTC"}
    for name, value in given.items():
        field, convert = _CONVERTED.get(name, (name, None))
        fields[field] = value if convert is None else convert(value)
    return checked(msgspec.structs.replace(existing, **fields))


def checked(schedule: Schedule) -> Schedule:
    """The schedule itself, if it can fire; else the problem with it."""
    if (schedule.cron is None) == (schedule.every is None):
        raise invalid("/cron", "has to be given, or `every_seconds`, but not both")
    _check("/timezone", "is not a time zone such as Europe/Berlin", schedule.timezone)
    try:
        if schedule.cron is not None:
            cron.parse(schedule.cron, schedule.timezone)
    except ConfigError:
        raise invalid("/cron", "is not a cron expression that comes due") from None
    if schedule.anchor and schedule.cron is not None:
        raise invalid("/anchor", "is for intervals")
    try:
        validate(schedule)
        submission.validate(_job(schedule))
    except (ConfigError, SubmitError):
        raise invalid("", "a field is out of its limits, or not printable") from None
    return schedule


def view(it: Schedule) -> ScheduleView:
    """A schedule as it is stored."""
    return ScheduleView(
        name=it.name,
        tenant=it.tenant,
        type=it.type,
        payload=msgspec.Raw(it.payload),
        cron=it.cron,
        every_seconds=seconds(it.every),
        anchor=instant(it.anchor),
        timezone=it.timezone,
        queue=it.queue,
        priority=it.priority,
        max_attempts=it.max_attempts,
        timeout_seconds=seconds(it.timeout),
        tags=it.tags,
        catch_up=it.catch_up,
        catch_up_limit=it.catch_up_limit,
        overlap=it.overlap,
        jitter_seconds=it.jitter / 1e6,
        is_paused=it.is_paused,
        next_due=moment(it.next_due),
        last_due=moment(it.last_due),
        last_job=None if it.last_job is None else ids.text(it.last_job),
    )


def _check(pointer: str, words: str, zone: str) -> None:
    try:
        cron.zone(zone)
    except ConfigError:
        raise invalid(pointer, words) from None


def _job(schedule: Schedule) -> NewJob:
    return NewJob(
        id=_NOBODY,
        type=schedule.type,
        payload=schedule.payload,
        queue=schedule.queue,
        tenant=schedule.tenant,
        priority=schedule.priority,
        max_attempts=schedule.max_attempts,
        timeout=schedule.timeout,
        tags=schedule.tags,
    )


def _micros(value: float | None) -> int | None:
    return None if value is None else round(value * 1e6)


def _timeout(value: float | None) -> int | None:
    return None if value is None else max(round(value * 1e6), 1)


_CONVERTED: dict[str, tuple[str, Any]] = {
    "payload": ("payload", codec.pack),
    "every_seconds": ("every", _micros),
    "anchor": ("anchor", micros),
    "timeout_seconds": ("timeout", _timeout),
    "jitter_seconds": ("jitter", _micros),
}
