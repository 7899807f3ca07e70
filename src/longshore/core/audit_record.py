"""What somebody ordered: who, what, and to what. It is stored with what the order did."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from longshore.core import ids
from longshore.core.account import NewKey, Tenant
from longshore.core.job import JobId
from longshore.core.limit_settings import BreakerSettings, Layer, QueueSettings
from longshore.core.schedule import Schedule
from longshore.core.view import JobOrder
from longshore.core.webhook import Endpoint

__all__ = [
    "AuditRecord",
    "Tally",
    "breaker_reset",
    "breaker_set",
    "consumer_forgotten",
    "jobs_changed",
    "joined",
    "key_created",
    "key_revoked",
    "key_rotated",
    "line_released",
    "paused",
    "queue_set",
    "resumed",
    "schedule_deleted",
    "schedule_put",
    "submitted",
    "tenant_deleted",
    "tenant_put",
    "webhook_deleted",
    "webhook_put",
    "worker_drained",
]

_encode = msgspec.json.Encoder().encode


class AuditRecord(msgspec.Struct, frozen=True):
    """One order that was carried out. Secrets and payloads are no part of it."""

    action: str
    """The kind of thing, a dot, and the verb: `queue.pause`."""
    subject: str
    """The one thing it was done to, or how many there were."""
    tenant: str = ""
    """Whose thing it is, as far as the order said; empty for any."""
    facts: str = "{}"
    """What else the order said: a JSON object."""
    actor: str = ""


class Tally(msgspec.Struct, frozen=True, gc=False):
    """What somebody submitted in a while."""

    tenant: str
    jobs: int
    first: JobId
    last: JobId


def joined(before: Tally | None, after: Tally) -> Tally:
    """Both whiles as one."""
    if before is None:
        return after
    return Tally(before.tenant, before.jobs + after.jobs, before.first, after.last)


def jobs_changed(order: JobOrder, job_ids: Sequence[JobId]) -> AuditRecord:
    """These jobs were cancelled, replayed, run now or deleted."""
    texts = [ids.text(one) for one in job_ids]
    subject = texts[0] if len(texts) == 1 else f"{len(texts)} jobs"
    facts = {"jobs": texts} | ({"reason": order.reason} if order.change == "cancel" else {})
    action = f"job.{order.change}"
    return AuditRecord(action, subject, order.tenant or "", _text(facts), order.actor)


def line_released(queue: str, key: str, tenant: str) -> AuditRecord:
    """A blocked ordering key went on without its dead jobs."""
    return AuditRecord("line.release", f"{queue}/{key}", tenant)


def worker_drained(token: int) -> AuditRecord:
    """A worker was asked to drain."""
    return AuditRecord("worker.drain", f"{token}")


def consumer_forgotten(name: str) -> AuditRecord:
    """A consumer of events was forgotten."""
    return AuditRecord("consumer.forget", name)


def submitted(tally: Tally) -> AuditRecord:
    """Jobs were submitted over HTTP."""
    first, last = ids.text(tally.first), ids.text(tally.last)
    if tally.jobs == 1:
        return AuditRecord("job.submit", first, tally.tenant)
    facts = {"first": first, "last": last}
    return AuditRecord("job.submit", f"{tally.jobs} jobs", tally.tenant, _text(facts))


def paused(queue: str | None, type: str | None) -> AuditRecord:
    """A queue, a type, or a type in one queue is no longer handed out."""
    return _pause_of("pause", queue, type)


def resumed(queue: str | None, type: str | None) -> AuditRecord:
    """That pause was undone."""
    return _pause_of("resume", queue, type)


def queue_set(queue: str, layer: Layer, settings: QueueSettings) -> AuditRecord:
    """A layer of the settings of a queue was replaced."""
    return AuditRecord("queue.set", queue, "", _text({"layer": layer, "settings": settings}))


def breaker_set(type: str, layer: Layer, settings: BreakerSettings) -> AuditRecord:
    """A layer of the settings of a circuit breaker was replaced."""
    return AuditRecord("breaker.set", type, "", _text({"layer": layer, "settings": settings}))


def breaker_reset(type: str) -> AuditRecord:
    """A circuit breaker was closed."""
    return AuditRecord("breaker.reset", type)


def schedule_put(schedule: Schedule) -> AuditRecord:
    """A schedule was created or changed. Its payload is not told."""
    known = replace(schedule, next_due=None, last_due=None, last_job=None)
    facts = msgspec.structs.asdict(known)
    del facts["payload"]
    told = {name: value for name, value in facts.items() if value is not None}
    return AuditRecord("schedule.put", schedule.name, schedule.tenant, _text(told))


def schedule_deleted(name: str, tenant: str) -> AuditRecord:
    """A schedule was deleted."""
    return AuditRecord("schedule.delete", name, tenant)


def tenant_put(tenant: Tenant) -> AuditRecord:
    """A tenant was created or changed."""
    facts = msgspec.structs.asdict(tenant)
    return AuditRecord("tenant.put", tenant.name, tenant.name, _text(facts))


def tenant_deleted(name: str) -> AuditRecord:
    """A tenant was deleted, with its keys and webhooks."""
    return AuditRecord("tenant.delete", name)


def key_created(key: NewKey) -> AuditRecord:
    """An API key was created. Neither its secret nor the digest is told."""
    facts = {"scopes": key.scopes, "label": key.label, "lifetime": key.lifetime}
    facts |= {"queues": key.queues} if key.queues else {}
    facts |= {"types": key.types} if key.types else {}
    return AuditRecord("key.create", key.id, key.tenant or "", _text(facts))


def key_rotated(key_id: str, grace: int) -> AuditRecord:
    """An API key got a new secret."""
    return AuditRecord("key.rotate", key_id, "", _text({"grace": grace}))


def key_revoked(key_id: str) -> AuditRecord:
    """An API key was ended."""
    return AuditRecord("key.revoke", key_id)


def webhook_put(endpoint: Endpoint, before: Endpoint | None) -> AuditRecord | None:
    """A webhook endpoint was created or changed; None where only its failures were noted."""
    if before is not None and replace(before, failing_since=endpoint.failing_since) == endpoint:
        return None
    facts = msgspec.structs.asdict(endpoint)
    for name in ("id", "tenant", "created_at", "failing_since"):
        del facts[name]
    # Behind the question mark is where people put tokens.
    facts["url"] = endpoint.url.partition("?")[0]
    facts["secrets"] = len(endpoint.secrets)
    facts["is_rotated"] = before is not None and before.secrets != endpoint.secrets
    return AuditRecord("webhook.put", endpoint.id, endpoint.tenant, _text(facts))


def webhook_deleted(endpoint_id: str, tenant: str | None) -> AuditRecord:
    """A webhook endpoint was deleted."""
    return AuditRecord("webhook.delete", endpoint_id, tenant or "")


def _pause_of(verb: str, queue: str | None, type: str | None) -> AuditRecord:
    kind = "queue" if type is None else "type"
    subject = queue if type is None else type
    return AuditRecord(
        f"{kind}.{verb}", subject or "", "", _text({"queue": queue, "type": type})
    )


def _text(facts: Mapping[str, Any]) -> str:
    return _encode(facts).decode()
