"""Schedules that an app declares in its code, and how they reach its store."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypedDict, cast

import msgspec

from longshore.core.job import NewJob
from longshore.core.schedule import CatchUp, Overlap, Schedule, validate
from longshore.errors import ConfigError, PayloadError
from longshore.options import Duration, microseconds
from longshore.task import Spec, Task

__all__ = [
    "Times",
    "recurring",
    "without_arguments",
]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Times(TypedDict, total=False):
    """When a schedule is due, and what happens if that goes wrong."""

    cron: str
    """Five fields, six with seconds in front, or `@daily` and the like."""
    every: Duration
    """An interval instead of a cron expression."""
    anchor: datetime
    """What an interval is counted from: the epoch unless given. Nothing is due before it."""
    timezone: str
    """Of the cron expression, such as Europe/Berlin; UTC unless given."""
    catch_up: Literal["skip", "latest", "all"]
    """What fires of due times that passed while nothing ran: the latest unless given."""
    catch_up_limit: int
    """With `all`, at most this many."""
    overlap: Literal["allow", "skip"]
    """Whether a due time fires while the last job is still live; allowed unless given."""
    jitter: Duration
    """Each job runs up to this long after its due time."""


def recurring(name: str, spec: Spec[Any], times: Times) -> Schedule:
    """A schedule that submits jobs like the spec's, or ConfigError."""
    job = spec.job
    _refuse_unfit(name, job, spec.connection)
    schedule = Schedule(
        name=name,
        tenant=job.tenant,
        type=job.type,
        payload=job.payload,
        queue=job.queue,
        priority=job.priority,
        max_attempts=job.max_attempts,
        timeout=job.timeout,
        tags=job.tags,
    )
    wanted = msgspec.structs.replace(schedule, **_read(name, times))
    validate(wanted)
    return wanted


def without_arguments(task: object, name: str) -> Spec[Any]:
    """The job of a task that needs to be told nothing, or ConfigError."""
    # Not every caller has a type checker.
    if not isinstance(task, Task):
        raise ConfigError("@app.schedule is for tasks: put it above @app.task")
    try:
        return cast("Task[[], Any]", task).spec()
    except PayloadError as error:
        raise ConfigError(
            f"schedule {name!r}: {error}; "
            "app.schedule(name, task.spec(...), ...) gives a task its arguments"
        ) from None


def _read(name: str, times: Times) -> dict[str, Any]:
    """The fields of a schedule that the times speak of, or ConfigError."""
    fields: dict[str, Any] = {}
    for option, value in times.items():
        if option not in _READERS:
            raise ConfigError(f"schedule {name!r}: there is no option {option!r}")
        try:
            fields[option] = _READERS[option](value)
        except (AttributeError, ValueError, TypeError, OverflowError) as error:
            raise ConfigError(
                f"schedule {name!r}: {option} is {value!r:.80}: {error}"
            ) from None
    return fields


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("give a string")
    return value


def _number(value: Any) -> int:
    if type(value) is not int:
        raise TypeError("give a whole number")
    return value


def _instant(value: Any) -> int:
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise TypeError("give a datetime with a time zone")
    return (value - _EPOCH) // timedelta(microseconds=1)


_READERS: Mapping[str, Callable[[Any], object]] = {
    "cron": _text,
    "every": microseconds,
    "anchor": _instant,
    "timezone": _text,
    "catch_up": CatchUp,
    "catch_up_limit": _number,
    "overlap": Overlap,
    "jitter": microseconds,
}


def _refuse_unfit(name: str, job: NewJob, connection: object) -> None:
    unfit = {
        "key": job.idempotency_key,
        "unique": job.unique_key,
        "run_at": job.run_at,
        "delay": job.delay or None,
        "trace": job.trace,
        "connection": connection,
    }
    for option, value in unfit.items():
        if value is not None:
            raise ConfigError(f"schedule {name!r}: its jobs cannot have the option {option!r}")
