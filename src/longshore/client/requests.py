"""Every request that a client makes, without I/O: what to send, and how to read the answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Generic, TypeVar
from urllib.parse import quote
from uuid import uuid4

import msgspec

from longshore.client.documents import Submission, Submitted
from longshore.core import ids
from longshore.core.account import DEFAULT_TENANT, Grant
from longshore.core.audit import Entry, Standing, read_mark
from longshore.core.instant import moment as instant
from longshore.core.job import NewJob
from longshore.core.job import Submitted as Accepted
from longshore.core.latency import Slowness
from longshore.core.schedule import Schedule
from longshore.core.state import State
from longshore.core.view import BrokenRecord, Pause
from longshore.errors import EngineError, PayloadError
from longshore.operations.audit import AuditEntries, AuditHead, AuditPage, AuditWhich
from longshore.operations.breakers import BreakerList, BreakerView
from longshore.operations.broken_records import BrokenRecordList
from longshore.operations.declarations import Declarations
from longshore.operations.events import Heard
from longshore.operations.fields import MOST_LISTED
from longshore.operations.findings import Diagnosis
from longshore.operations.job_documents import (
    AttemptList,
    AttemptView,
    BatchItem,
    BatchResult,
    JobDocument,
    SentJob,
    readable,
)
from longshore.operations.jobs import Explanation, JobChange, Which
from longshore.operations.keys import KeyList, KeyView, MintedView
from longshore.operations.lines import LineList, LineView, ReleasedLine
from longshore.operations.outbox import (
    ConsumerList,
    ConsumerView,
    QuarantinedList,
    QuarantinedView,
)
from longshore.operations.queues import PauseList, QueueList, QueueView
from longshore.operations.schedule_documents import (
    Preview,
    ScheduleList,
    SchedulePatch,
    ScheduleView,
    WholeSchedule,
    definition_of,
)
from longshore.operations.schedules import StoredSchedule
from longshore.operations.stats import SlowList, Stats
from longshore.operations.tenants import TenantList, TenantView
from longshore.operations.webhooks import (
    DeliveryList,
    DeliveryView,
    NewWebhook,
    StartedDelivery,
    WebhookBody,
    WebhookList,
    WebhookPatch,
    WebhookView,
)
from longshore.operations.workers import CrashCounts, WorkerList, WorkerView
from longshore.options import Duration, microseconds
from longshore.wire.problems import error_of_problem
from longshore.wire.streams import Trail

__all__ = [
    "EVENTS",
    "MOST_DUE_TIMES",
    "MOST_JOBS",
    "Ask",
    "JobHead",
    "Listing",
    "Page",
    "accepted",
    "attempts",
    "broken_records",
    "cancel",
    "change_jobs",
    "change_matching",
    "change_schedule",
    "change_tenant",
    "change_webhook",
    "create_key",
    "create_schedule",
    "create_tenant",
    "create_webhook",
    "dead",
    "declare",
    "delete_schedule",
    "delete_tenant",
    "delete_webhook",
    "drain_worker",
    "explain",
    "get",
    "heard",
    "jobs",
    "keys",
    "page_of",
    "preview_schedule",
    "purge",
    "put_schedule",
    "queue",
    "queue_verb",
    "queues",
    "readiness",
    "replay",
    "replay_delivery",
    "retry",
    "revoke_key",
    "rotate_key",
    "rotate_webhook",
    "schedule",
    "schedule_verb",
    "schedules",
    "set_queue",
    "stats",
    "stream_of",
    "submit",
    "submit_jobs",
    "submit_many",
    "tenant",
    "tenants",
    "test_webhook",
    "trail",
    "type_verb",
    "webhook",
    "webhook_deliveries",
    "webhooks",
    "workers",
    "written",
]

MOST_JOBS = 1_000
"""Jobs of one request of those who bring many."""
MOST_DUE_TIMES = 100
"""Due times in one answer."""

T = TypeVar("T")
D = TypeVar("D")


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Some items of a list, and where the next page begins."""

    items: list[T]
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


def page_of(wanted: int | None, cursor: str) -> dict[str, str]:
    """What is asked of a list for its next page, as large as it may be; None wants it whole."""
    limit = MOST_LISTED if wanted is None else min(wanted, MOST_LISTED)
    return {"limit": f"{limit}", **({"cursor": cursor} if cursor else {})}


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


class SentJobs(msgspec.Struct, frozen=True):
    """A page of jobs."""

    jobs: list[SentJob]
    cursor: str | None


def get(job_id: str) -> Ask[JobDocument]:
    """One job."""
    return Ask("GET", f"/v1/jobs/{_part(job_id)}", _job, is_repeatable=True)


def attempts(job_id: str) -> Listing[AttemptView]:
    """A job's deliveries that ended."""
    path = f"/v1/jobs/{_part(job_id)}/attempts"
    return _listing(path, AttemptList, lambda page: page.attempts)


def jobs() -> Listing[JobDocument]:
    """Jobs, newest first."""
    return _listing("/v1/jobs", SentJobs, _read_jobs)


def dead() -> Listing[JobDocument]:
    """Dead jobs, newest first."""
    return _listing("/v1/dead", SentJobs, _read_jobs)


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


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """What a client looks at of a change of many jobs."""

    matched: int
    missed: int
    is_complete: bool
    jobs: list[SentJob] | None = None
    cancelled: int = 0
    retried: int = 0
    replayed: int = 0
    purged: int = 0

    @property
    def changed(self) -> list[JobDocument]:
        """Those that were named by their ids, as they are then."""
        return [readable(one) for one in self.jobs or ()]

    @property
    def done(self) -> int:
        """How many were changed."""
        return self.cancelled + self.retried + self.replayed + self.purged


def change_jobs(change: JobChange, job_ids: Sequence[str], reason: str) -> Ask[Changed]:
    """Change jobs that are named by their ids."""
    return _change(change, {"ids": list(job_ids)}, reason)


def change_matching(
    change: JobChange, which: Which, reason: str, options: Mapping[str, Any]
) -> Ask[Changed]:
    """Change jobs that a filter finds, as far as one request comes."""
    found: dict[str, Any] = dict(which)
    if change in ("replay", "purge") and found.get("state") == State.DEAD:
        del found["state"]  # what is dead is meant in any case
    return _change(change, {"filter": found, **options}, reason)


def _change(change: JobChange, body: dict[str, Any], reason: str) -> Ask[Changed]:
    noun = "jobs" if change in ("cancel", "retry") else "dead"
    if change == "cancel" and reason:
        body["reason"] = reason
    return Ask("POST", f"/v1/{noun}:{change}", _decoded(Changed), _written(body))


def explain(job_id: str) -> Ask[Explanation]:
    """Why a job does not run."""
    path = f"/v1/jobs/{_part(job_id)}/explain"
    return Ask("GET", path, _decoded(Explanation), is_repeatable=True)


def submit_jobs(jobs: Sequence[NewJob], *, independent: bool) -> Ask[list[BatchItem]]:
    """Jobs of one tenant that have ids, so that sending them again is harmless."""
    found = _decoded(BatchResult)
    tenant = jobs[0].tenant
    return Ask(
        "POST",
        "/v1/jobs:batch",
        lambda status, raw: found(status, raw).results,
        _written({"jobs": [_body_of(job) for job in jobs]}),
        query={} if independent else {"independent": "false"},
        headers={} if tenant == DEFAULT_TENANT else {"longshore-tenant": tenant},
        is_repeatable=True,
    )


def accepted(item: BatchItem) -> Accepted:
    """What the engine said of a job; what is wrong in itself is raised."""
    if item.verdict is None or item.id is None:
        if item.problem is not None:
            raise error_of_problem(item.problem)
        raise EngineError("the service did not say what became of a job")
    return Accepted(ids.parse(item.id), item.verdict)


def _body_of(job: NewJob) -> dict[str, Any]:
    """The document of a job that was made here."""
    return {
        "id": ids.text(job.id),
        "type": job.type,
        "payload": msgspec.Raw(job.payload),
        "queue": job.queue,
        "priority": job.priority,
        "run_at": None if job.run_at is None else instant(job.run_at),
        "delay_seconds": job.delay / 1e6 if job.delay and job.run_at is None else None,
        "max_attempts": job.max_attempts,
        "timeout_seconds": None if job.timeout is None else job.timeout / 1e6,
        "idempotency_key": job.idempotency_key,
        "unique_key": job.unique_key,
        "unique_until": job.unique_until,
        "ordering_key": job.ordering_key,
        "trace": job.trace,
        "tags": job.tags,
    }


def purge(job_id: str) -> Ask[None]:
    """Delete a dead job."""
    return Ask("DELETE", f"/v1/dead/{_part(job_id)}", _nothing)


def queues(*, may_estimate: bool) -> Listing[QueueView]:
    """Queues, by name."""
    query = {"may_estimate": "true"} if may_estimate else {}
    return _listing("/v1/queues", QueueList, lambda page: page.queues, query)


def queue(name: str) -> Ask[QueueView]:
    """One queue."""
    return Ask("GET", f"/v1/queues/{_part(name)}", _decoded(QueueView), is_repeatable=True)


def set_queue(
    name: str, settings: Mapping[str, Any], *, forgets_declared: bool
) -> Ask[QueueView]:
    """Override settings of a queue."""
    body: dict[str, Any] = {"settings": dict(settings)}
    if forgets_declared:
        body["declared"] = None
    path = f"/v1/queues/{_part(name)}"
    return Ask("PATCH", path, _decoded(QueueView), _written(body), is_repeatable=True)


def pauses() -> Listing[Pause]:
    """What is not handed out."""
    return _listing("/v1/pauses", PauseList, lambda page: page.pauses)


def type_verb(name: str, verb: str) -> Ask[None]:
    """Pause or resume a type in every queue."""
    return Ask("POST", f"/v1/types/{_part(name)}:{verb}", _nothing, is_repeatable=True)


def queue_verb(name: str, verb: str, type_name: str | None) -> Ask[QueueView]:
    """Pause or resume a queue, or a type in it."""
    path = f"/v1/queues/{_part(name)}:{verb}"
    body = _written({"type": type_name})
    return Ask("POST", path, _decoded(QueueView), body, is_repeatable=True)


def breakers() -> Listing[BreakerView]:
    """Circuit breakers, by type."""
    return _listing("/v1/breakers", BreakerList, lambda page: page.breakers)


def breaker(type: str) -> Ask[BreakerView]:
    """The circuit breaker of a type."""
    path = f"/v1/breakers/{_part(type)}"
    return Ask("GET", path, _decoded(BreakerView), is_repeatable=True)


def set_breaker(
    type: str, settings: Mapping[str, Any], *, forgets_declared: bool
) -> Ask[BreakerView]:
    """Override settings of a type's circuit breaker."""
    body = {**settings, "declared": None} if forgets_declared else dict(settings)
    path = f"/v1/breakers/{_part(type)}"
    return Ask("PATCH", path, _decoded(BreakerView), _written(body), is_repeatable=True)


def reset_breaker(type: str) -> Ask[BreakerView]:
    """Close a type's circuit breaker."""
    path = f"/v1/breakers/{_part(type)}:reset"
    return Ask("POST", path, _decoded(BreakerView), is_repeatable=True)


def broken_records() -> Listing[BrokenRecord]:
    """Stored records that cannot be decoded."""
    return _listing("/v1/broken-records", BrokenRecordList, lambda page: page.records)


def blocked_lines() -> Listing[LineView]:
    """Lines that dead jobs block."""
    return _listing("/v1/lines", LineList, lambda page: page.lines)


def line(queue: str, key: str) -> Ask[LineView]:
    """The line of one ordering key."""
    path = f"/v1/queues/{_part(queue)}/line"
    return Ask("GET", path, _decoded(LineView), query={"key": key}, is_repeatable=True)


def release_line(queue: str, key: str) -> Ask[ReleasedLine]:
    """Let a blocked line go on."""
    body = _written({"queue": queue, "key": key})
    return Ask("POST", "/v1/lines:release", _decoded(ReleasedLine), body)


def workers() -> Listing[WorkerView]:
    """The workers that are connected."""
    return _listing("/v1/workers", WorkerList, lambda page: page.workers)


def crash_counts() -> Ask[CrashCounts]:
    """What crashes have cost so far; a list of workers tells it on each page."""
    found = _decoded(WorkerList)
    return Ask(
        "GET",
        "/v1/workers",
        lambda status, raw: found(status, raw).crashes,
        query={"limit": "1"},
        is_repeatable=True,
    )


def drain_worker(token: int) -> Ask[WorkerView]:
    """Ask a worker to leave."""
    path = f"/v1/workers/{token}:drain"
    return Ask("POST", path, _decoded(WorkerView), is_repeatable=True)


def consumers() -> Listing[ConsumerView]:
    """Who reads events, by name."""
    return _listing("/v1/consumers", ConsumerList, lambda page: page.consumers)


def forget_consumer(name: str) -> Ask[None]:
    """Keep no more events for a consumer."""
    return Ask("DELETE", f"/v1/consumers/{_part(name)}", _nothing)


def quarantined() -> Listing[QuarantinedView]:
    """Events that a consumer could not hand on, newest first."""
    return _listing("/v1/quarantined", QuarantinedList, lambda page: page.events)


def audit(limit: int, cursor: str | None, which: AuditWhich) -> Ask[AuditPage]:
    """Who did what, newest first."""
    given = {**which, "limit": limit, "cursor": cursor}
    query = {
        name: value.isoformat() if isinstance(value, datetime) else str(value)
        for name, value in given.items()
        if value is not None
    }
    return Ask("GET", "/v1/audit", _decoded(AuditPage), query=query, is_repeatable=True)


def audit_standing() -> Ask[Standing]:
    """Where the audit log begins and ends."""
    found = _decoded(AuditHead)

    def read(status: int, raw: bytes) -> Standing:
        told = found(status, raw)
        return Standing(anchor=read_mark(told.anchor), head=read_mark(told.head))

    return Ask("GET", "/v1/audit/head", read, is_repeatable=True)


def audit_entries(after: int, limit: int) -> Ask[list[Entry]]:
    """Entries of the audit log as they are stored."""
    found = _decoded(AuditEntries)
    return Ask(
        "GET",
        "/v1/audit/entries",
        lambda status, raw: found(status, raw).entries,
        query={"after": f"{after}", "limit": f"{min(limit, MOST_LISTED)}"},
        is_repeatable=True,
    )


def doctor() -> Ask[Diagnosis]:
    """What is usually wrong with a queue and its store."""
    return Ask("GET", "/v1/doctor", _decoded(Diagnosis), is_repeatable=True)


def schedules() -> Listing[ScheduleView]:
    """Schedules, by name."""
    return _listing("/v1/schedules", ScheduleList, lambda page: page.schedules)


def schedule(name: str, tenant: str | None) -> Ask[WholeSchedule]:
    """One schedule."""
    read = _decoded(WholeSchedule)
    return Ask("GET", _schedule(name), read, headers=_for(tenant), is_repeatable=True)


def create_schedule(body: Mapping[str, Any]) -> Ask[ScheduleView]:
    """Create a schedule."""
    return Ask("POST", "/v1/schedules", _decoded(ScheduleView), _written(body))


def put_schedule(wanted: Schedule) -> Ask[StoredSchedule]:
    """Create a schedule, or replace the one of its name."""
    decoded = _decoded(ScheduleView)
    return Ask(
        "PUT",
        _schedule(wanted.name),
        lambda status, raw: StoredSchedule(decoded(status, raw), status == 201),
        _written(definition_of(wanted)),
        headers=_for(wanted.tenant),
        is_repeatable=True,
    )


def change_schedule(name: str, patch: SchedulePatch, tenant: str | None) -> Ask[ScheduleView]:
    """Change what the patch names of a schedule."""
    return Ask(
        "PATCH",
        _schedule(name),
        _decoded(ScheduleView),
        _written(patch),
        headers=_for(tenant),
        is_repeatable=True,
    )


def schedule_verb(name: str, verb: str, kind: type[T], tenant: str | None) -> Ask[T]:
    """Pause, resume or run a schedule."""
    return Ask(
        "POST",
        f"{_schedule(name)}:{verb}",
        _decoded(kind),
        headers=_for(tenant),
        is_repeatable=verb != "run",
    )


def delete_schedule(name: str, tenant: str | None) -> Ask[None]:
    """Delete a schedule."""
    return Ask("DELETE", _schedule(name), _nothing, headers=_for(tenant))


def preview_schedule(
    name: str, count: int, after: datetime | None, tenant: str | None
) -> Ask[Preview]:
    """The next due times of a schedule, up to MOST_DUE_TIMES."""
    query = {"count": f"{min(count, MOST_DUE_TIMES)}"}
    if after is not None:
        query["after"] = after.isoformat()
    return Ask(
        "GET",
        f"{_schedule(name)}/preview",
        _decoded(Preview),
        query=query,
        headers=_for(tenant),
        is_repeatable=True,
    )


def tenants() -> Listing[TenantView]:
    """Tenants, by name."""
    return _listing("/v1/tenants", TenantList, lambda page: page.tenants)


def tenant(name: str) -> Ask[TenantView]:
    """One tenant."""
    return Ask("GET", f"/v1/tenants/{_part(name)}", _decoded(TenantView), is_repeatable=True)


def create_tenant(name: str, settings: Mapping[str, Any]) -> Ask[TenantView]:
    """Create a tenant."""
    body = _written({"name": name, **settings})
    return Ask("POST", "/v1/tenants", _decoded(TenantView), body, is_repeatable=True)


def change_tenant(name: str, settings: Mapping[str, Any]) -> Ask[TenantView]:
    """Change settings of a tenant."""
    path, body = f"/v1/tenants/{_part(name)}", _written(dict(settings))
    return Ask("PATCH", path, _decoded(TenantView), body, is_repeatable=True)


def delete_tenant(name: str) -> Ask[None]:
    """Delete a tenant."""
    return Ask("DELETE", f"/v1/tenants/{_part(name)}", _nothing)


def keys(tenant: str | None) -> Listing[KeyView]:
    """API keys, oldest first."""
    listing = _listing("/v1/keys", KeyList, lambda page: page.keys)
    whose = {} if tenant is None else {"tenant": tenant}
    return lambda query: listing({**query, **whose})


def create_key(
    grant: Grant, tenant: str | None, label: str, lifetime: timedelta | None
) -> Ask[MintedView]:
    """Make an API key."""
    body = {
        **grant._asdict(),
        "tenant": tenant,
        "label": label,
        "lifetime_seconds": None if lifetime is None else lifetime.total_seconds(),
    }
    return Ask("POST", "/v1/keys", _decoded(MintedView), _written(body))


def rotate_key(key_id: str, grace: timedelta) -> Ask[MintedView]:
    """Give a key a new secret."""
    body = _written({"grace_seconds": grace.total_seconds()})
    return Ask("POST", f"/v1/keys/{_part(key_id)}:rotate", _decoded(MintedView), body)


def revoke_key(key_id: str) -> Ask[KeyView]:
    """End a key."""
    path = f"/v1/keys/{_part(key_id)}"
    return Ask("DELETE", path, _decoded(KeyView), is_repeatable=True)


def webhooks() -> Listing[WebhookView]:
    """Webhook endpoints, oldest first."""
    return _listing("/v1/webhooks", WebhookList, lambda page: page.webhooks)


def webhook(endpoint_id: str) -> Ask[WebhookView]:
    """One endpoint."""
    return Ask("GET", _webhook(endpoint_id), _decoded(WebhookView), is_repeatable=True)


def create_webhook(body: WebhookBody) -> Ask[NewWebhook]:
    """Make an endpoint."""
    return Ask("POST", "/v1/webhooks", _decoded(NewWebhook), _written(body))


def change_webhook(endpoint_id: str, patch: WebhookPatch) -> Ask[WebhookView]:
    """Change what the patch names of an endpoint."""
    path, read = _webhook(endpoint_id), _decoded(WebhookView)
    return Ask("PATCH", path, read, _written(patch), is_repeatable=True)


def delete_webhook(endpoint_id: str) -> Ask[None]:
    """Delete an endpoint."""
    return Ask("DELETE", _webhook(endpoint_id), _nothing)


def rotate_webhook(endpoint_id: str, grace: timedelta) -> Ask[NewWebhook]:
    """Give an endpoint a new secret."""
    body = _written({"grace_seconds": grace.total_seconds()})
    return Ask("POST", f"{_webhook(endpoint_id)}:rotate", _decoded(NewWebhook), body)


def test_webhook(endpoint_id: str) -> Ask[StartedDelivery]:
    """Send an endpoint a message that says nothing."""
    return Ask("POST", f"{_webhook(endpoint_id)}:test", _decoded(StartedDelivery))


def webhook_deliveries(
    endpoint_id: str, state: State | None, limit: int
) -> Ask[list[DeliveryView]]:
    """The latest deliveries to an endpoint, newest first."""
    found = _decoded(DeliveryList)
    query = {"limit": f"{limit}"}
    if state is not None:
        query["state"] = state.value
    return Ask(
        "GET",
        f"{_webhook(endpoint_id)}/deliveries",
        lambda status, raw: found(status, raw).deliveries,
        query=query,
        is_repeatable=True,
    )


def replay_delivery(endpoint_id: str, delivery_id: str) -> Ask[StartedDelivery]:
    """Bring a message once more."""
    path = f"{_webhook(endpoint_id)}/deliveries/{_part(delivery_id)}:replay"
    return Ask("POST", path, _decoded(StartedDelivery))


def stats(queue: str | None) -> Ask[Stats]:
    """The queue in numbers."""
    query = {} if queue is None else {"queue": queue}
    return Ask("GET", "/v1/stats", _decoded(Stats), query=query, is_repeatable=True)


def slow_types(which: Mapping[str, str | None]) -> Ask[list[Slowness]]:
    """Types, and whether their jobs wait or run."""
    query = {name: value for name, value in which.items() if value is not None}
    found = _decoded(SlowList)
    return Ask(
        "GET",
        "/v1/slow",
        lambda status, raw: found(status, raw).types,
        query=query,
        is_repeatable=True,
    )


class Readiness(msgspec.Struct, frozen=True):
    """What a client looks at of a service that is ready."""

    now: datetime


def readiness() -> Ask[Readiness]:
    """Whether the service can write to its store, and what time it is there."""
    return Ask("GET", "/readyz", _decoded(Readiness), is_repeatable=True)


def declare(declared: Declarations) -> list[Ask[None]]:
    """Store what code declares."""
    return [
        Ask(
            "PUT",
            "/v1/declarations",
            _nothing,
            _written(body),
            headers={} if tenant == DEFAULT_TENANT else {"longshore-tenant": tenant},
            is_repeatable=True,
        )
        for tenant, body in declared.documents().items()
    ]


def stream_of(job_id: str) -> str:
    """Where a job's events are."""
    return f"/v1/jobs/{_part(job_id)}/stream"


EVENTS = "/v1/events"
"""Where all events are."""


def heard(which: Heard, *, from_start: bool, is_endless: bool = True) -> dict[str, str]:
    """What is asked of /v1/events."""
    names = ",".join(which.get("names", ()))
    given = {
        "queue": which.get("queue"),
        "type": which.get("type"),
        "job_id": which.get("job_id"),
        "event": names or None,
        "from_start": "true" if from_start else None,
        "follow": None if is_endless else "false",
    }
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
_jobs = msgspec.json.Decoder(SentJob)


def _job(_: int, raw: bytes) -> JobDocument:
    return readable(_jobs.decode(raw))


def _read_jobs(page: SentJobs) -> list[JobDocument]:
    return [readable(one) for one in page.jobs]


def _nothing(_: int, __: bytes) -> Any:
    return None


def _decoded(kind: type[T]) -> Callable[[int, bytes], T]:
    decoder = msgspec.json.Decoder(kind)
    return lambda _, raw: decoder.decode(raw)


def _listing(
    path: str,
    kind: type[D],
    items: Callable[[D], list[T]],
    always: Mapping[str, str] = MappingProxyType({}),
) -> Listing[T]:
    read = _decoded(kind)

    def page(status: int, raw: bytes) -> Page[T]:
        found: Any = read(status, raw)
        return Page(items(found), found.cursor)

    return lambda query: Ask("GET", path, page, query={**always, **query}, is_repeatable=True)


def _written(body: Any) -> bytes:
    try:
        return _encoder.encode(body)
    except (TypeError, UnicodeEncodeError, OverflowError) as error:
        raise PayloadError(f"the request cannot be written as JSON: {error}") from None


def _for(tenant: str | None) -> dict[str, str]:
    """The header that names a tenant; none for the tenant `default`.

    Without it an operator's key speaks for that tenant, and a tenant's own key, which may name
    no other, for its own.
    """
    return {} if tenant in (None, DEFAULT_TENANT) else {"longshore-tenant": tenant}


def _schedule(name: str) -> str:
    return f"/v1/schedules/{_part(name)}"


def _webhook(endpoint_id: str) -> str:
    return f"/v1/webhooks/{_part(endpoint_id)}"


def _part(text: str) -> str:
    return quote(text, safe="")


def _quoted(key: str) -> str:
    if not key.isascii() or not key.isprintable():
        raise PayloadError("an idempotency key is 1 to 512 printable ASCII characters")
    escaped = key.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
