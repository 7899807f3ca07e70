"""Schedules: recurring definitions, and which of their due times to fire."""

from enum import StrEnum

import msgspec

from longshore.core.job import DEFAULT_TIMEOUT_US, JobId, NewJob

__all__ = ["CatchUp", "DueSchedule", "Firing", "Overlap", "Schedule", "Shot"]


class CatchUp(StrEnum):
    """What happens to due times that passed while no scheduler ran."""

    SKIP = "skip"
    LATEST = "latest"
    ALL = "all"


class Overlap(StrEnum):
    """What a due time does while the schedule's last job is still live."""

    ALLOW = "allow"
    SKIP = "skip"


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A recurring definition of a job: a cron expression in a time zone, or an interval."""

    name: str
    tenant: str = "default"
    cron: str | None = None
    every: int | None = None
    """Microseconds between due times, counted from `anchor`."""
    anchor: int = 0
    timezone: str = "UTC"
    type: str
    payload: bytes = b"{}"
    queue: str = "default"
    priority: int = 5
    max_attempts: int = 5
    timeout: int | None = DEFAULT_TIMEOUT_US
    tags: tuple[str, ...] = ()
    catch_up: CatchUp = CatchUp.LATEST
    catch_up_limit: int = 100
    overlap: Overlap = Overlap.ALLOW
    jitter: int = 0
    """Each job runs up to this long after its due time; the due time itself stays exact."""
    is_paused: bool = False
    next_due: int | None = None
    last_due: int | None = None
    last_job: JobId | None = None


class DueSchedule(msgspec.Struct, frozen=True):
    """A schedule whose next due time has come, as the engine saw it."""

    schedule: Schedule
    now: int
    is_last_job_live: bool


class Shot(msgspec.Struct, frozen=True):
    """One due time and its job; no job when the overlap policy skipped it."""

    due: int
    job: NewJob | None


class Firing(msgspec.Struct, frozen=True):
    """What to do for a due schedule: applied only if `expected` is still its next due time."""

    name: str
    tenant: str
    expected: int
    shots: tuple[Shot, ...]
    next_due: int | None
