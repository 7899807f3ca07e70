"""What `--json` prints: plain documents with stable names, ids as text, times as RFC 3339."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from longshore.cli import waits
from longshore.core import ids, poison
from longshore.core.explain import Reason
from longshore.core.job import Attempt, Job, JobId
from longshore.core.schedule import Schedule
from longshore.engine import Pause, QueueCounts, SessionView

__all__ = [
    "Document",
    "attempt",
    "instant",
    "job",
    "queue",
    "reasons",
    "schedule",
    "seconds",
    "worker",
]

Document = dict[str, object]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = (datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)


def instant(microseconds: int | None) -> str | None:
    """An engine's time as RFC 3339, in UTC."""
    if microseconds is None:
        return None
    moment = _EPOCH + timedelta(microseconds=min(max(microseconds, 0), _LAST))
    return moment.isoformat().replace("+00:00", "Z")


def seconds(microseconds: int | None) -> float | None:
    """An engine's duration in seconds."""
    return None if microseconds is None else microseconds / 1_000_000


def job(
    it: Job, attempts: Sequence[Attempt] | None = None, waits_because: str | None = None
) -> Document:
    """A job; when `attempts` are given with its history, and with why it waits."""
    document = _fields(it, times=("run_at", "created_at", "started_at", "finished_at"))
    document["id"] = ids.text(it.id)
    document["payload"] = _json(it.payload)
    document["result"] = _json(it.result)
    document["timeout_seconds"] = seconds(it.timeout)
    del document["timeout"]
    document["progress"] = None if it.progress is None else _fields(it.progress, times=("at",))
    if attempts is not None:
        document["attempts"] = [attempt(one) for one in attempts]
        document["waits_because"] = waits_because
        document["victims"] = poison.victims(attempts)
    return document


def reasons(it: Job, them: Sequence[Reason]) -> Document:
    """Why a job does not run."""
    told = [_fields(one, times=("until",)) for one in them]
    return {"id": ids.text(it.id), "state": it.state, "reasons": told}


def attempt(it: Attempt) -> Document:
    """One delivery of a job's history."""
    return _fields(it, times=("started_at", "finished_at"))


def queue(it: QueueCounts, pauses: Sequence[Pause]) -> Document:
    """A queue's counts, and the types that it does not hand out."""
    document = _fields(it, times=("oldest_ready_at",))
    document["paused_types"] = waits.paused_types(it.queue, pauses)
    return document


def worker(it: SessionView) -> Document:
    """A worker's session."""
    return _fields(it, times=("opened_at", "renewed_at", "expires_at"))


def schedule(it: Schedule) -> Document:
    """A schedule."""
    document = _fields(it, times=("anchor", "next_due", "last_due"))
    document["payload"] = _json(it.payload)
    document["last_job"] = _id(it.last_job)
    for name in ("every", "timeout", "jitter"):
        document[f"{name}_seconds"] = seconds(document.pop(name))
    return document


def _fields(it: msgspec.Struct, *, times: Sequence[str]) -> dict[str, Any]:
    values = msgspec.structs.asdict(it)
    return values | {name: instant(values[name]) for name in times}


def _id(job_id: JobId | None) -> str | None:
    return None if job_id is None else ids.text(job_id)


def _json(raw: bytes | None) -> object:
    """Stored JSON as part of a document that stays on one line."""
    if raw is None:
        return None
    try:
        return msgspec.Raw(msgspec.json.format(raw, indent=-1))
    except msgspec.DecodeError:
        # An engine keeps whatever bytes it was handed; a list must survive them.
        return raw.decode(errors="replace")
