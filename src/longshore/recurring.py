"""Schedules that an app declares in its code, and how they reach the engine."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypedDict, cast

import msgspec

from longshore.core.job import NewJob
from longshore.core.schedule import CatchUp, Overlap, Schedule, declared, validate
from longshore.engine import Engine
from longshore.errors import ConfigError, PayloadError
from longshore.options import Duration, microseconds
from longshore.task import Spec, Task

__all__ = ["Times", "recurring", "store", "without_arguments"]

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
    unknown = times.keys() - Times.__annotations__.keys()
    if unknown:
        raise ConfigError(f"schedule {name!r}: there is no option {min(unknown)!r}")
    job = spec.job
    _refuse_unfit(name, job, spec.connection)
    every = times.get("every")
    try:
        schedule = Schedule(
            name=name,
            tenant=job.tenant,
            cron=times.get("cron"),
            every=None if every is None else microseconds(every),
            anchor=_anchor(times),
            timezone=times.get("timezone", "UTC"),
            type=job.type,
            payload=job.payload,
            queue=job.queue,
            priority=job.priority,
            max_attempts=job.max_attempts,
            timeout=job.timeout,
            tags=job.tags,
            catch_up=CatchUp(times.get("catch_up", CatchUp.LATEST)),
            catch_up_limit=times.get("catch_up_limit", 100),
            overlap=Overlap(times.get("overlap", Overlap.ALLOW)),
            jitter=microseconds(times.get("jitter", timedelta())),
        )
    except (ValueError, TypeError, OverflowError) as error:
        raise ConfigError(f"schedule {name!r}: {error}") from None
    validate(schedule)
    return schedule


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


async def store(engine: Engine, schedules: Iterable[Schedule]) -> None:
    """Bring the engine's schedules up to these; nothing is written if they are the same.

    A schedule that someone paused stays paused, and one that is no longer declared stays: it
    may be another program's.
    """
    stored = {(one.tenant, one.name): one for one in await engine.schedules()}
    for schedule in schedules:
        existing = stored.get((schedule.tenant, schedule.name))
        if existing is not None:
            schedule = msgspec.structs.replace(schedule, is_paused=existing.is_paused)
        wanted = declared(schedule, now=await engine.now(), existing=existing)
        if wanted != existing:
            await engine.put_schedule(wanted)


def _anchor(times: Times) -> int:
    anchor = times.get("anchor", _EPOCH)
    if "every" not in times and "anchor" in times:
        raise ValueError("an anchor is for intervals; a cron expression has none")
    if anchor.utcoffset() is None:
        raise ValueError("give the anchor a time zone")
    return (anchor - _EPOCH) // timedelta(microseconds=1)


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
