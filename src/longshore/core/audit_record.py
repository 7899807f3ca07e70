"""What somebody ordered: who, what, and to what. It is stored with what the order did."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from longshore.core import ids
from longshore.core.job import JobId
from longshore.core.webhook import Endpoint

__all__ = ["RECORDED", "AuditRecord", "Tally", "joined", "of"]

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


Arguments = Mapping[str, Any]
_Maker = Callable[[Arguments], AuditRecord | None]


def of(method: str, arguments: Arguments, *, actor: str) -> AuditRecord | None:
    """What is recorded of a call of the contract; None when it orders nothing."""
    made = RECORDED[method](arguments)
    return None if made is None else replace(made, actor=actor)


def _jobs(action: str, *names: str) -> _Maker:
    def make(arguments: Arguments) -> AuditRecord | None:
        found: Sequence[JobId] = list(dict.fromkeys(arguments["job_ids"]))
        if not found:
            return None
        texts = [ids.text(one) for one in found]
        subject = texts[0] if len(texts) == 1 else f"{len(texts)} jobs"
        facts = {"jobs": texts, **_some(arguments, names)}
        return AuditRecord(action, subject, arguments["tenant"] or "", _text(facts))

    return make


def _submits(arguments: Arguments) -> AuditRecord:
    it: Tally = arguments["tally"]
    first, last = ids.text(it.first), ids.text(it.last)
    if it.jobs == 1:
        return AuditRecord("job.submit", first, it.tenant)
    return AuditRecord(
        "job.submit", f"{it.jobs} jobs", it.tenant, _text({"first": first, "last": last})
    )


def _named(action: str, subject: str, *names: str) -> _Maker:
    def make(arguments: Arguments) -> AuditRecord:
        tenant = arguments.get("tenant") or ""
        return AuditRecord(
            action, f"{arguments[subject]}", tenant, _text(_some(arguments, names))
        )

    return make


def _pause(verb: str) -> _Maker:
    def make(arguments: Arguments) -> AuditRecord:
        kind = "queue" if arguments["type"] is None else "type"
        return AuditRecord(f"{kind}.{verb}", arguments[kind] or "", facts=_text(arguments))

    return make


def _schedule(arguments: Arguments) -> AuditRecord:
    it = arguments["schedule"]
    facts = msgspec.structs.asdict(replace(it, next_due=None, last_due=None, last_job=None))
    del facts["payload"]
    told = {name: value for name, value in facts.items() if value is not None}
    return AuditRecord("schedule.put", it.name, it.tenant, _text(told))


def _line(arguments: Arguments) -> AuditRecord:
    subject = f"{arguments['queue']}/{arguments['key']}"
    return AuditRecord("line.release", subject, arguments["tenant"])


def _tenant(arguments: Arguments) -> AuditRecord:
    it = arguments["tenant"]
    return AuditRecord("tenant.put", it.name, it.name, _text(msgspec.structs.asdict(it)))


def _key(arguments: Arguments) -> AuditRecord:
    it = arguments["key"]
    facts = {"scopes": it.scopes, "label": it.label, "lifetime": it.lifetime}
    facts |= {"queues": it.queues} if it.queues else {}
    facts |= {"types": it.types} if it.types else {}
    return AuditRecord("key.create", it.id, it.tenant or "", _text(facts))


def _webhook(arguments: Arguments) -> AuditRecord | None:
    it: Endpoint = arguments["endpoint"]
    seen: Endpoint | None = arguments["seen"]
    if seen is not None and replace(seen, failing_since=it.failing_since) == it:
        return None  # a delivery failed, or one succeeded again
    facts = msgspec.structs.asdict(it)
    for name in ("id", "tenant", "created_at", "failing_since"):
        del facts[name]
    # Behind the question mark is where people put tokens.
    facts["url"] = it.url.partition("?")[0]
    facts["secrets"] = len(it.secrets)
    facts["is_rotated"] = seen is not None and seen.secrets != it.secrets
    return AuditRecord("webhook.put", it.id, it.tenant, _text(facts))


RECORDED: dict[str, _Maker] = {
    "note_submits": _submits,
    "cancel": _jobs("job.cancel", "reason"),
    "replay": _jobs("job.replay"),
    "retry_now": _jobs("job.retry"),
    "purge": _jobs("job.purge"),
    "pause": _pause("pause"),
    "resume": _pause("resume"),
    "quiet": _named("worker.drain", "token"),
    "put_schedule": _schedule,
    "delete_schedule": _named("schedule.delete", "name"),
    "put_queue": _named("queue.set", "name", "layer", "settings"),
    "put_breaker": _named("breaker.set", "type", "layer", "settings"),
    "reset_breaker": _named("breaker.reset", "type"),
    "release_line": _line,
    "put_tenant": _tenant,
    "delete_tenant": _named("tenant.delete", "name"),
    "add_key": _key,
    "rotate_key": _named("key.rotate", "key_id", "grace"),
    "revoke_key": _named("key.revoke", "key_id"),
    "put_webhook": _webhook,
    "delete_webhook": _named("webhook.delete", "endpoint_id"),
    "delete_consumer": _named("consumer.forget", "name"),
}
"""By the contract's method, what is recorded of it."""


def _some(arguments: Arguments, names: Sequence[str]) -> dict[str, object]:
    return {name: arguments[name] for name in names}


def _text(facts: Mapping[str, Any]) -> str:
    return _encode(facts).decode()
