"""Jobs as API, command line and SDK show them: ids as text, JSON as objects, times in UTC."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from longshore.core import ids
from longshore.core.job import Attempt, Failure, NewJob, Progress, Submitted, Verdict
from longshore.core.job import Job as StoredJob
from longshore.core.state import State
from longshore.core.view import Page
from longshore.operations.fields import instant, moment, read_json, seconds, stored_json
from longshore.wire.problems import Problem

__all__ = [
    "AttemptList",
    "AttemptView",
    "BatchItem",
    "BatchResult",
    "FailureView",
    "Job",
    "JobDocument",
    "JobList",
    "SentJob",
    "SubmittedJob",
    "attempt_list",
    "attempt_view",
    "job_document",
    "job_list",
    "read_job",
    "readable",
    "standing",
    "submitted",
]

Json = Annotated[Any, Meta(description="As it is stored.")]
"""JSON that is passed on: the service puts it in as it is stored, a reader gets objects."""

_sorted = msgspec.json.Encoder(order="sorted").encode
_NULL = msgspec.Raw(b"null")


class DeathView(msgspec.Struct, frozen=True, kw_only=True):
    """The death of a worker, as one of the jobs that ran in it knows it."""

    beside: int
    """How many other jobs ran in that worker."""
    victims: tuple[str, ...]
    """The ids of those of the same tenant, or of the first of them."""
    in_child: bool
    """The job ran in a child process that cannot have done it: it proves nothing."""


class FailureView(msgspec.Struct, frozen=True):
    """Why an attempt ended badly."""

    kind: str
    """The exception's name, or timeout, crash, payload, result."""
    message: str
    traceback: str
    death: DeathView | None = None
    """Of a crash: the worker that died; null where the job's own process did."""


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


class JobDocument(msgspec.Struct, frozen=True, kw_only=True):
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
    victims: tuple[str, ...] = ()
    """Jobs of the same tenant that ran in the same workers when these died, as far as they are
    named; told of a single job only."""


Job: TypeAlias = JobDocument
"""What users import as `longshore.Job`."""


class SentJob(JobDocument, frozen=True, kw_only=True):
    """A job whose JSON is not read yet: what cannot be read spoils no list."""

    payload: msgspec.Raw
    result: msgspec.Raw


class JobList(msgspec.Struct, frozen=True):
    """Jobs, newest first."""

    jobs: list[JobDocument]
    cursor: str | None
    """Where the next page begins; null at the end."""


class BatchItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one job of a batch: what its own request would have been answered."""

    status: int
    """201: it is new. 200: a job stands for it already. Else what `problem` says."""
    id: str | None = None
    """Of the job that stands for it."""
    verdict: Verdict | None = None
    """What was done with it, unless it is wrong in itself."""
    problem: Problem | None = None
    retry_after_seconds: int | None = None
    """Of what may work later: when, as the header Retry-After would say."""


class BatchResult(msgspec.Struct, frozen=True):
    """What became of each job, in the order of the batch."""

    accepted: int
    """How many are new."""
    results: list[BatchItem]


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


def standing(job: StoredJob) -> SubmittedJob:
    """A job that keeps a new one out, in the form of the new one."""
    view = job_document(job)
    fields = SubmittedJob.__struct_fields__
    return SubmittedJob(**{name: getattr(view, name) for name in fields})


def job_document(job: StoredJob, victims: Sequence[str] = ()) -> JobDocument:
    """A job as it is now, to be sent: its JSON is put in as it is stored."""
    return JobDocument(
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
        victims=tuple(victims),
    )


def job_list(page: Page) -> JobList:
    """A page of jobs."""
    return JobList([job_document(job) for job in page.jobs], page.cursor)


def read_job(job: StoredJob, victims: Sequence[str] = ()) -> JobDocument:
    """A job as it is now, for a program of this process: its JSON is objects."""
    return readable(job_document(job, victims))


def readable(it: JobDocument) -> JobDocument:
    """A job as it was sent, with its JSON as objects: each part is read for itself."""
    fields = msgspec.structs.asdict(it)
    fields |= {"payload": read_json(it.payload), "result": read_json(it.result)}
    return JobDocument(**fields)


def attempt_list(found: Sequence[Attempt], cursor: str | None) -> AttemptList:
    """A page of a job's history."""
    return AttemptList([attempt_view(one) for one in found], cursor)


def attempt_view(it: Attempt) -> AttemptView:
    """One delivery of a job's history."""
    return AttemptView(
        delivery=it.delivery,
        attempt=it.attempt,
        outcome=it.outcome,
        worker=it.worker,
        started_at=moment(it.started_at),
        finished_at=moment(it.finished_at),
        failure=_failure(it.failure),
    )


def _progress(it: Progress | None) -> ProgressView | None:
    return None if it is None else ProgressView(it.fraction, it.message, instant(it.at))


def _failure(it: Failure | None) -> FailureView | None:
    if it is None:
        return None
    death = None
    if it.death is not msgspec.UNSET:
        beside, victims, in_child = it.death.beside, it.death.victims, it.death.in_child
        death = DeathView(beside=beside, victims=victims, in_child=in_child)
    return FailureView(it.kind, it.message, it.traceback, death)


def _json(raw: bytes | None) -> msgspec.Raw:
    return _NULL if raw is None else stored_json(raw)
