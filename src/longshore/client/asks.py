"""Every request that a client makes, without I/O: what to send, and how to read the answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote
from uuid import uuid4

import msgspec

from longshore.api.dead import ReplayResult
from longshore.api.fields import MOST_LISTED
from longshore.api.jobs import BatchItem, BatchResult
from longshore.api.queues import QueueList, QueueView, WorkerList, WorkerView
from longshore.api.recurrence import ScheduleView
from longshore.api.schedules import ScheduleList
from longshore.api.stats import Stats
from longshore.api.views import AttemptList, AttemptView
from longshore.client.documents import Heard, JobDocument, Submission, Submitted
from longshore.errors import PayloadError
from longshore.options import Duration, microseconds
from longshore.wire.streams import Trail

__all__ = [
    "MOST_JOBS",
    "WHOLE",
    "Ask",
    "Listing",
    "Page",
    "attempts",
    "cancel",
    "dead",
    "get",
    "heard",
    "jobs",
    "purge",
    "put_schedule",
    "queue_verb",
    "queues",
    "replay",
    "replay_dead",
    "retry",
    "schedule_verb",
    "schedules",
    "stats",
    "stream_of",
    "submit",
    "submit_many",
    "trail",
    "workers",
    "written",
]

MOST_JOBS = 1_000
"""Jobs of one request of those who bring many."""

T = TypeVar("T")
D = TypeVar("D")


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Some items of a list, and where the next page begins."""

    items: list[T]
    cursor: str | None


class JobPage(msgspec.Struct, frozen=True):
    """A page of jobs as a client reads it."""

    jobs: list[JobDocument]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class Ask(Generic[T]):
    """One request."""

    method: str
    path: str
    read: Callable[[int, bytes], T]
    """The answer, from its status and body."""
    body: bytes | None = None
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    is_repeatable: bool = False
    """Sent again after an answer was lost, it does no harm and gets the same answer."""


Listing = Callable[[Mapping[str, str]], Ask[Page[T]]]
"""The request for a page of a list, from its filter and cursor."""
WHOLE = {"limit": f"{MOST_LISTED}"}
"""Who wants the whole list asks for it in few pages."""


def submit(job: Submission) -> Ask[Submitted]:
    """One job, under an idempotency key in any case."""
    body = job.body()
    key = body.pop("idempotency_key", None) or uuid4().hex
    headers = {"idempotency-key": _quoted(key)}

    def read(status: int, raw: bytes) -> Submitted:
        found = msgspec.json.decode(raw, type=JobHead)
        return Submitted(found.id, found.state, status == 201)

    return Ask("POST", "/v1/jobs", read, _written(body), headers=headers, is_repeatable=True)


def submit_many(bodies: Sequence[bytes]) -> Ask[list[BatchItem]]:
    """Many jobs in one request, as they were written."""
    found = _decoded(BatchResult)
    return Ask(
        "POST",
        "/v1/jobs:batch",
        lambda status, raw: found(status, raw).results,
        b'{"jobs":[%b]}' % b",".join(bodies),
        is_repeatable=True,
    )


def written(job: Submission) -> bytes:
    """A job of many, under an idempotency key in any case; or the error with it."""
    return _written(job.body(uuid4().hex))


def get(job_id: str) -> Ask[JobDocument]:
    """One job."""
    return Ask("GET", f"/v1/jobs/{_part(job_id)}", _job, is_repeatable=True)


def attempts(job_id: str) -> Listing[AttemptView]:
    """A job's deliveries that ended."""
    path = f"/v1/jobs/{_part(job_id)}/attempts"
    return _listing(path, AttemptList, lambda page: page.attempts)


def jobs() -> Listing[JobDocument]:
    """Jobs, newest first."""
    return _listing("/v1/jobs", JobPage, lambda page: page.jobs)


def dead() -> Listing[JobDocument]:
    """Dead jobs, newest first."""
    return _listing("/v1/dead", JobPage, lambda page: page.jobs)


def cancel(job_id: str, reason: str) -> Ask[JobDocument]:
    """Cancel a job."""
    body = _written({"reason": reason})
    return Ask("POST", f"/v1/jobs/{_part(job_id)}:cancel", _job, body)


def retry(job_id: str) -> Ask[JobDocument]:
    """Make a scheduled job ready."""
    return Ask("POST", f"/v1/jobs/{_part(job_id)}:retry", _job)


def replay(job_id: str) -> Ask[JobDocument]:
    """Make a dead job ready again."""
    return Ask("POST", f"/v1/dead/{_part(job_id)}:replay", _job)


def replay_dead(which: Mapping[str, Any], options: Mapping[str, Any]) -> Ask[ReplayResult]:
    """Make many dead jobs ready again."""
    body = _written({"filter": dict(which), **options})
    return Ask("POST", "/v1/dead:replay", _decoded(ReplayResult), body)


def purge(job_id: str) -> Ask[None]:
    """Delete a dead job."""
    return Ask("DELETE", f"/v1/dead/{_part(job_id)}", _nothing)


def queues() -> Listing[QueueView]:
    """Queues, by name."""
    return _listing("/v1/queues", QueueList, lambda page: page.queues)


def queue_verb(name: str, verb: str, type_name: str | None) -> Ask[QueueView]:
    """Pause or resume a queue, or a type in it."""
    path = f"/v1/queues/{_part(name)}:{verb}"
    body = _written({"type": type_name})
    return Ask("POST", path, _decoded(QueueView), body, is_repeatable=True)


def workers() -> Listing[WorkerView]:
    """The workers that are connected."""
    return _listing("/v1/workers", WorkerList, lambda page: page.workers)


def schedules() -> Listing[ScheduleView]:
    """Schedules, by name."""
    return _listing("/v1/schedules", ScheduleList, lambda page: page.schedules)


def put_schedule(body: Mapping[str, Any]) -> Ask[ScheduleView]:
    """Create a schedule."""
    return Ask("POST", "/v1/schedules", _decoded(ScheduleView), _written(body))


def schedule_verb(name: str, verb: str | None, kind: type[T]) -> Ask[T]:
    """Pause, resume or run a schedule; without a verb, delete it."""
    path = f"/v1/schedules/{_part(name)}"
    if verb is None:
        return Ask("DELETE", path, _nothing)
    again = verb in ("pause", "resume")
    return Ask("POST", f"{path}:{verb}", _decoded(kind), is_repeatable=again)


def stats(queue: str | None) -> Ask[Stats]:
    """The queue in numbers."""
    query = {} if queue is None else {"queue": queue}
    return Ask("GET", "/v1/stats", _decoded(Stats), query=query, is_repeatable=True)


def stream_of(job_id: str) -> str:
    """Where a job's events are."""
    return f"/v1/jobs/{_part(job_id)}/stream"


def heard(which: Heard) -> dict[str, str]:
    """What is asked of /v1/events."""
    names = ",".join(which.get("names", ()))
    given = {"queue": which.get("queue"), "type": which.get("type"), "event": names or None}
    return {name: value for name, value in given.items() if value is not None}


def trail(
    patience: float,
    timeout: Duration | None,
    now: float,
    *,
    after: str = "",
    is_of_job: bool = False,
) -> Trail:
    """How a stream is read that ends after `timeout`."""
    deadline = None if timeout is None else now + microseconds(timeout) / 1e6
    return Trail(patience, is_of_job=is_of_job, deadline=deadline, last=after)


class JobHead(msgspec.Struct, frozen=True):
    """What a client looks at of a job that was accepted."""

    id: str
    state: Any


_encoder = msgspec.json.Encoder()
_jobs = msgspec.json.Decoder(JobDocument)


def _job(_: int, raw: bytes) -> JobDocument:
    return _jobs.decode(raw)


def _nothing(_: int, __: bytes) -> Any:
    return None


def _decoded(kind: type[T]) -> Callable[[int, bytes], T]:
    decoder = msgspec.json.Decoder(kind)
    return lambda _, raw: decoder.decode(raw)


def _listing(path: str, kind: type[D], items: Callable[[D], list[T]]) -> Listing[T]:
    read = _decoded(kind)

    def page(status: int, raw: bytes) -> Page[T]:
        found: Any = read(status, raw)
        return Page(items(found), found.cursor)

    return lambda query: Ask("GET", path, page, query=query, is_repeatable=True)


def _written(body: Any) -> bytes:
    try:
        return _encoder.encode(body)
    except (TypeError, UnicodeEncodeError, OverflowError) as error:
        raise PayloadError(f"the request cannot be written as JSON: {error}") from None


def _part(text: str) -> str:
    return quote(text, safe="")


def _quoted(key: str) -> str:
    if not key.isascii() or not key.isprintable():
        raise PayloadError("an idempotency key is 1 to 512 printable ASCII characters")
    escaped = key.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
