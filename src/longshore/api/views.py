"""What the service answers with: stable names, ids as text, times as RFC 3339."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from longshore.api.fields import Json, instant, moment, seconds
from longshore.core import ids
from longshore.core.job import Attempt, Failure, Job, NewJob, Progress, Submitted
from longshore.core.state import State
from longshore.engine import Page

__all__ = [
    "AttemptList",
    "AttemptView",
    "FailureView",
    "JobList",
    "JobView",
    "SubmittedJob",
    "WholeJob",
    "attempt_list",
    "encode",
    "job_list",
    "job_view",
    "standing",
    "submitted",
    "whole_job",
]

encode = msgspec.json.Encoder().encode
_sorted = msgspec.json.Encoder(order="sorted").encode
_NULL = msgspec.Raw(b"null")


class FailureView(msgspec.Struct, frozen=True):
    """Why an attempt ended badly."""

    kind: str
    """The exception's name, or timeout, crash, payload, result."""
    message: str
    traceback: str


class SubmittedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it was accepted."""

    id: str
    type: str
    queue: str
    tenant: str
    state: State
    priority: int
    attempt: int
    """Starts so far."""
    max_attempts: int
    payload: Json
    """With its keys in order."""
    run_at: datetime
    """When it is or was due."""
    created_at: datetime
    """When it was stored."""
    timeout_seconds: float | None
    idempotency_key: str | None
    unique_key: str | None
    ordering_key: str | None
    tags: tuple[str, ...]


class ProgressView(msgspec.Struct, frozen=True):
    """How far a job said it was."""

    fraction: float
    """0 to 1."""
    message: str | None
    at: datetime


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known of a job."""

    id: str
    type: str
    queue: str
    tenant: str
    state: State
    priority: int
    attempt: int
    """Starts so far."""
    max_attempts: int
    """How many failures make it dead."""
    failures: int
    crashes: int
    lapses: int
    delivery: int
    """How often it was claimed."""
    payload: Json
    run_at: datetime
    created_at: datetime
    started_at: datetime | None
    """Of the last attempt; null while a running job waits in a worker's buffer."""
    finished_at: datetime | None
    timeout_seconds: float | None
    result: Json
    """What the task returned."""
    failure: FailureView | None
    """The last one."""
    reason: str | None
    """Why it is dead or cancelled."""
    parked: str | None
    """Why a ready job may not be taken now."""
    worker: str | None
    """Who holds it, while it is running."""
    progress: ProgressView | None
    """How far it came in its last attempt, by its own account."""
    cancel_requested: bool
    idempotency_key: str | None
    unique_key: str | None
    ordering_key: str | None
    trace: str | None
    tags: tuple[str, ...]


class WholeJob(JobView, frozen=True, kw_only=True):
    """Everything that is known of a job, with what its attempts tell."""

    victims: tuple[str, ...]
    """Jobs that ran in the same workers when these died, as far as they are named."""


class JobList(msgspec.Struct, frozen=True):
    """Jobs, newest first."""

    jobs: list[JobView]
    cursor: str | None
    """Where the next page begins; null at the end."""


class AttemptView(msgspec.Struct, frozen=True, kw_only=True):
    """One delivery in a job's history."""

    delivery: int
    attempt: int
    outcome: str
    worker: str | None
    started_at: datetime | None
    finished_at: datetime | None
    failure: FailureView | None


class AttemptList(msgspec.Struct, frozen=True):
    """A job's deliveries that ended, oldest first."""

    attempts: list[AttemptView]
    cursor: str | None
    """Where the next page begins; null at the end."""


def submitted(job: NewJob, answer: Submitted) -> SubmittedJob:
    """A job as its submit is answered: the same bytes whenever the same key asks again.

    So it holds nothing but what is in the request and what the engine keeps with the key.
    """
    created_at = instant(answer.created_at)
    is_due = answer.run_at == answer.created_at
    return SubmittedJob(
        id=ids.text(answer.id),
        type=job.type,
        queue=job.queue,
        tenant=job.tenant,
        state=answer.state,
        priority=job.priority,
        attempt=0,
        max_attempts=job.max_attempts,
        payload=msgspec.Raw(_sorted(msgspec.json.decode(job.payload))),
        run_at=created_at if is_due else instant(answer.run_at),
        created_at=created_at,
        timeout_seconds=seconds(job.timeout),
        idempotency_key=job.idempotency_key,
        unique_key=job.unique_key,
        ordering_key=job.ordering_key,
        tags=job.tags,
    )


def standing(job: Job) -> SubmittedJob:
    """A job that keeps a new one out, in the form of the new one."""
    view = job_view(job)
    fields = SubmittedJob.__struct_fields__
    return SubmittedJob(**{name: getattr(view, name) for name in fields})


def job_view(job: Job) -> JobView:
    """A job as it is now."""
    return JobView(
        id=ids.text(job.id),
        type=job.type,
        queue=job.queue,
        tenant=job.tenant,
        state=job.state,
        priority=job.priority,
        attempt=job.attempt,
        max_attempts=job.max_attempts,
        failures=job.failures,
        crashes=job.crashes,
        lapses=job.lapses,
        delivery=job.delivery,
        payload=_json(job.payload),
        run_at=instant(job.run_at),
        created_at=instant(job.created_at),
        started_at=moment(job.started_at),
        finished_at=moment(job.finished_at),
        timeout_seconds=seconds(job.timeout),
        result=_json(job.result),
        failure=_failure(job.failure),
        reason=job.reason,
        parked=job.parked,
        worker=job.worker,
        progress=_progress(job.progress),
        cancel_requested=job.cancel_requested,
        idempotency_key=job.idempotency_key,
        unique_key=job.unique_key,
        ordering_key=job.ordering_key,
        trace=job.trace,
        tags=job.tags,
    )


def whole_job(job: Job, victims: Sequence[str]) -> WholeJob:
    """A job as it is now, and who died beside it."""
    view = job_view(job)
    fields = {name: getattr(view, name) for name in JobView.__struct_fields__}
    return WholeJob(**fields, victims=tuple(victims))


def job_list(page: Page) -> JobList:
    """A page of jobs."""
    return JobList([job_view(job) for job in page.jobs], page.cursor)


def attempt_list(found: Sequence[Attempt], cursor: str | None) -> AttemptList:
    """A page of a job's history."""
    return AttemptList(
        [
            AttemptView(
                delivery=one.delivery,
                attempt=one.attempt,
                outcome=one.outcome,
                worker=one.worker,
                started_at=moment(one.started_at),
                finished_at=moment(one.finished_at),
                failure=_failure(one.failure),
            )
            for one in found
        ],
        cursor,
    )


def _progress(it: Progress | None) -> ProgressView | None:
    return None if it is None else ProgressView(it.fraction, it.message, instant(it.at))


def _failure(it: Failure | None) -> FailureView | None:
    return None if it is None else FailureView(it.kind, it.message, it.traceback)


def _json(raw: bytes | None) -> msgspec.Raw:
    """Stored JSON as a part of a document."""
    if raw is None:
        return _NULL
    try:
        return msgspec.Raw(msgspec.json.format(raw, indent=-1))
    except (msgspec.DecodeError, RecursionError):
        # Whatever a store holds, from an older version or another program: a list survives it.
        return msgspec.Raw(encode(raw.decode(errors="replace")))
