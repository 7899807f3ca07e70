"""How a job is submitted: the options of `@app.task` and `task.using`, and what they become."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypedDict

import msgspec

from longshore.core import codec, submission
from longshore.core.job import CheckedJob, JobId, NewJob, UniqueUntil
from longshore.errors import SubmitError

__all__ = ["Duration", "Options", "TaskOptions", "Template", "microseconds"]

Duration = timedelta | float
"""A timedelta, or seconds."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOBODY = JobId(bytes(16))


class TaskOptions(TypedDict, total=False):
    """What a task can say about all its jobs, and `using` about some."""

    queue: str
    tenant: str
    priority: int
    """1 is the most urgent, 9 the least; 5 unless given."""
    max_attempts: int
    """Counts the first run: 1 means never retry. 5 unless given."""
    timeout: Duration | None
    """For one attempt; 300 s unless given, None for no end."""
    unique: bool | str
    """True: not while a job of this task with the same arguments is live. Or a key of your own,
    shared by whatever names it.
    """
    unique_until: UniqueUntil | Literal["started", "finished"]
    """Whether a unique job keeps others out until it starts or (unless given) finishes."""
    tags: Iterable[str]


class Options(TaskOptions, total=False):
    """What can be said about one job, besides its arguments."""

    delay: Duration
    """Run it this long after it was accepted."""
    run_at: datetime
    """Run it not before this moment; it must have a time zone."""
    ordering_key: str
    """Jobs of one queue and tenant with the same ordering key run one at a time, in the order
    in which they were submitted or became due.
    """
    key: str
    """Idempotency key: submitting again with the same key and content is answered with the
    first job; with other content it is an IdempotencyError.
    """
    trace: str
    """W3C traceparent of whoever submits."""
    connection: object
    """A connection with an open transaction on the engine's own store: the job exists exactly
    if that transaction commits.
    """


@dataclass(frozen=True, slots=True)
class Template:
    """A job without id and payload: what a task's options amount to."""

    job: CheckedJob
    is_unique: bool = False
    """Its unique key is made from its payload."""
    connection: object = None

    @classmethod
    def of(cls, type_name: str) -> "Template":
        """The defaults for jobs of this type."""
        return cls(CheckedJob(id=_NOBODY, type=type_name)).using({})

    def using(self, options: Options) -> "Template":
        """With these options in place of its own, or SubmitError."""
        changes = _changes(options)
        if "run_at" in changes and "delay" in changes:
            raise SubmitError("give a delay or a time to run at, not both")
        if "delay" in changes:
            changes["run_at"] = None
        unique: bool | str | None = changes.pop("unique", None)
        if unique is not None:
            changes["unique_key"] = unique if isinstance(unique, str) else None
        job = msgspec.structs.replace(self.job, **changes)
        submission.validate_fields(job)
        return replace(
            self,
            job=job,
            is_unique=self.is_unique if unique is None else unique is True,
            connection=options.get("connection", self.connection),
        )

    def fill(self, job_id: JobId, payload: bytes) -> NewJob:
        """The job that asks for this payload, which `core.codec` has made or checked."""
        job = msgspec.structs.replace(self.job, id=job_id, payload=payload)
        if self.is_unique:
            job = msgspec.structs.replace(job, unique_key=codec.unique_key(job.type, payload))
        if job.idempotency_key is not None:
            job = msgspec.structs.replace(job, fingerprint=codec.fingerprint(job))
        return job


def microseconds(value: Duration) -> int:
    """The duration as the engine counts it, or ValueError."""
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    return round(value * 1_000_000)


def _changes(options: Options) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for name, value in options.items():
        if name not in Options.__annotations__:
            raise SubmitError(f"there is no option {name!r}")
        if name in _FIELDS:
            field, convert = _FIELDS[name]
            try:
                changes[field] = convert(value)
            except (TypeError, ValueError, OverflowError) as error:
                raise SubmitError(f"{name} is {value!r:.80}: {error}") from None
    return changes


def _instant(value: Any) -> int:
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise ValueError("give a datetime with a time zone")
    return (value - _EPOCH) // timedelta(microseconds=1)


def _timeout(value: Duration | None) -> int | None:
    return None if value is None else microseconds(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("give a string")
    return value


def _text_or_flag(value: Any) -> str | bool:
    if not isinstance(value, bool | str):
        raise TypeError("give True, False or a key")
    return value


def _number(value: Any) -> int:
    if type(value) is not int:
        raise TypeError("give a whole number")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        raise TypeError("give a list of strings")
    return tuple(_text(one) for one in value)


_FIELDS: Mapping[str, tuple[str, Callable[[Any], object]]] = {
    "queue": ("queue", _text),
    "tenant": ("tenant", _text),
    "priority": ("priority", _number),
    "max_attempts": ("max_attempts", _number),
    "timeout": ("timeout", _timeout),
    "unique": ("unique", _text_or_flag),
    "unique_until": ("unique_until", UniqueUntil),
    "tags": ("tags", _texts),
    "delay": ("delay", microseconds),
    "run_at": ("run_at", _instant),
    "key": ("idempotency_key", _text),
    "ordering_key": ("ordering_key", _text),
    "trace": ("trace", _text),
}
