"""What people see: the same facts as the documents, cut to what fits a screen."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from longshore.cli.render import Sheet, Table
from longshore.core import units
from longshore.core.instant import micros, rfc3339
from longshore.core.job import Job
from longshore.core.latency import Slowness, Spread
from longshore.core.schedule import CatchUp
from longshore.core.state import State
from longshore.operations.job_documents import AttemptView, JobDocument
from longshore.operations.queues import QueueView
from longshore.operations.schedule_documents import ScheduleView, WholeSchedule
from longshore.operations.workers import WorkerView

__all__ = [
    "ago",
    "attempts",
    "dead",
    "job",
    "jobs",
    "queues",
    "schedule",
    "schedules",
    "slow",
    "workers",
]

_SECOND = 1_000_000
_REASON_CHARACTERS = 60


def ago(moment: datetime | None, now: datetime) -> str:
    """A time as a person thinks of it: `3m ago`, `in 5s`."""
    if moment is None:
        return "-"
    distance = abs(micros(moment) - micros(now))
    if distance < _SECOND:
        return "now"
    return f"in {_rough(distance)}" if moment > now else f"{_rough(distance)} ago"


def jobs(found: Sequence[JobDocument], now: datetime) -> Table:
    """Jobs, one per line, on eighty columns."""
    return Table(
        columns=("id", "type", "queue", "state", "when"),
        rows=[(it.id, it.type, it.queue, _short_state(it), _since(it, now)) for it in found],
        empty="no jobs match",
    )


def dead(found: Sequence[JobDocument], now: datetime) -> Table:
    """Dead jobs and why."""
    return Table(
        columns=("id", "type", "died", "why"),
        rows=[(it.id, it.type, ago(it.finished_at, now), _why(it)) for it in found],
        empty="no dead jobs match",
    )


def job(it: JobDocument, now: datetime, waits_because: Sequence[str] = ()) -> Sheet:
    """Everything about one job."""
    timeout = it.timeout_seconds
    return Sheet(
        [
            ("id", it.id),
            ("type", it.type),
            ("queue", it.queue),
            ("tenant", None if it.tenant == "default" else it.tenant),
            ("state", _state(it)),
            ("waits", "\n".join(waits_because)),
            ("reason", it.reason),
            ("priority", f"{it.priority}"),
            ("payload", _json(it.payload)),
            ("result", None if it.result is None else _json(it.result)),
            ("submitted", _dated(it.created_at, now)),
            ("due", _dated(it.run_at, now) if it.state is State.SCHEDULED else None),
            ("started", _dated(it.started_at, now)),
            ("finished", _dated(it.finished_at, now)),
            ("worker", it.worker),
            ("progress", _progress(it, now)),
            ("attempts", f"{it.attempt}; {it.failures} of {it.max_attempts} failures"),
            ("crashes", f"{it.crashes}" if it.crashes else None),
            ("died beside it", "\n".join(it.victims)),
            ("timeout", "none" if timeout is None else _duration(round(timeout * _SECOND))),
            ("idempotency key", it.idempotency_key),
            ("unique key", it.unique_key),
            ("tags", ", ".join(it.tags)),
            ("trace", it.trace),
            ("error", f"{it.failure.kind}: {it.failure.message}" if it.failure else None),
            ("traceback", it.failure.traceback.rstrip() if it.failure else None),
        ]
    )


def _progress(it: JobDocument, now: datetime) -> str | None:
    if it.progress is None:
        return None
    words = f" {it.progress.message}" if it.progress.message else ""
    return f"{it.progress.fraction:.0%}{words}, {ago(it.progress.at, now)}"


def attempts(history: Sequence[AttemptView], now: datetime) -> Table:
    """A job's deliveries."""
    return Table(
        columns=("delivery#", "outcome", "started", "ran", "worker", "error"),
        rows=[
            (
                f"{it.delivery}",
                it.outcome,
                ago(it.started_at, now),
                _span(it.started_at, it.finished_at),
                it.worker or "-",
                f"{it.failure.kind}: {it.failure.message}" if it.failure else "",
            )
            for it in history
        ],
        empty="no attempt has ended yet",
    )


def queues(found: Sequence[QueueView], now: datetime) -> Table:
    """Queues and their depths."""
    return Table(
        columns=(
            "queue",
            "",
            "ready#",
            "scheduled#",
            "running#",
            "succeeded#",
            "dead#",
            "cancelled#",
            "oldest ready",
        ),
        rows=[
            (
                it.queue,
                _paused(it),
                f"{it.ready}" + (f" ({it.parked} parked)" if it.parked else ""),
                f"{it.scheduled}",
                f"{it.running}",
                f"{it.succeeded}",
                f"{it.dead}",
                f"{it.cancelled}",
                ago(it.oldest_ready_at, now),
            )
            for it in found
        ],
        empty="no queue has jobs",
    )


def _paused(it: QueueView) -> str:
    if it.is_paused:
        return "paused"
    return f"paused: {', '.join(it.paused_types)}" if it.paused_types else ""


def workers(found: Sequence[WorkerView], now: datetime) -> Table:
    """Workers that hold a lease."""
    return Table(
        columns=("session#", "worker", "", "queues", "types", "holding#", "since", "renewed"),
        rows=[
            (
                f"{it.token}",
                it.worker,
                "draining" if it.is_quiet else "",
                ", ".join(it.queues),
                ", ".join(it.types),
                f"{it.holding}",
                ago(it.opened_at, now),
                ago(it.renewed_at, now),
            )
            for it in found
        ],
        empty="no worker is connected",
    )


def schedules(them: Sequence[ScheduleView], now: datetime) -> Table:
    """Schedules and when they are next due."""
    return Table(
        columns=("name", "", "when", "type", "queue", "next due", "last due"),
        rows=[
            (
                it.name,
                "paused" if it.is_paused else "",
                recurrence(it),
                it.type,
                it.queue,
                "-" if it.is_paused else ago(it.next_due, now),
                ago(it.last_due, now),
            )
            for it in them
        ],
        empty="there are no schedules",
    )


def schedule(it: WholeSchedule, now: datetime) -> Sheet:
    """Everything about one schedule but its due times."""
    limit = f", the newest {it.catch_up_limit}" if it.catch_up is CatchUp.ALL else ""
    return Sheet(
        [
            ("name", it.name),
            ("tenant", None if it.tenant == "default" else it.tenant),
            ("when", recurrence(it)),
            ("from", rfc3339(it.anchor) if micros(it.anchor) else None),
            ("state", "paused: it will not fire until it is resumed" if it.is_paused else None),
            ("type", it.type),
            ("payload", _words(bytes(it.payload))),
            ("queue", it.queue),
            ("priority", f"{it.priority}"),
            ("attempts", f"at most {it.max_attempts}"),
            ("timeout", _seconds(it.timeout_seconds) if it.timeout_seconds else "none"),
            ("tags", ", ".join(it.tags)),
            ("catch up", f"{it.catch_up}{limit}"),
            ("overlap", f"{it.overlap}"),
            ("jitter", _seconds(it.jitter_seconds) if it.jitter_seconds else None),
            ("last due", _dated(it.last_due, now)),
            ("last job", it.last_job and f"{it.last_job} ({it.last_job_state or 'pruned'})"),
        ]
    )


def recurrence(it: ScheduleView) -> str:
    """When it fires, in words."""
    if it.every_seconds is not None:
        return f"every {_seconds(it.every_seconds)}"
    return f"{it.cron}" + (f" {it.timezone}" if it.timezone != "UTC" else "")


def _state(it: Job | JobDocument) -> str:
    if it.cancel_requested and it.state is State.RUNNING:
        return "running, cancel requested"
    if it.state is State.RUNNING and it.started_at is None:
        return "running, in a worker's buffer"
    if it.parked:
        return f"ready, parked: {it.parked}"
    return f"{it.state}"


def _short_state(it: JobDocument) -> str:
    if it.state is State.RUNNING and it.cancel_requested:
        return "cancelling"
    if it.state is State.RUNNING and it.started_at is None:
        return "buffered"
    return "parked" if it.parked else f"{it.state}"


def _since(it: JobDocument, now: datetime) -> str:
    if it.state is State.SCHEDULED:
        return f"due {ago(it.run_at, now)}"
    if it.finished_at is not None:
        return ago(it.finished_at, now)
    start = it.started_at if it.state is State.RUNNING else it.run_at
    return "" if start is None else f"for {_rough(max(micros(now) - micros(start), 0))}"


def _why(it: JobDocument) -> str:
    words = it.reason or ""
    if it.failure:
        words = f"{it.failure.kind}: {it.failure.message}"
    first = words.split("\n", 1)[0]
    return first if len(first) <= _REASON_CHARACTERS else first[: _REASON_CHARACTERS - 1] + "…"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _words(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode(errors="replace")


def _dated(moment: datetime | None, now: datetime) -> str | None:
    return None if moment is None else f"{rfc3339(moment)} ({ago(moment, now)})"


def _span(start: datetime | None, end: datetime | None) -> str:
    if start is None or end is None:
        return "-"
    return _duration(max(micros(end) - micros(start), 0))


def _duration(microseconds: int) -> str:
    return units.duration_text(timedelta(microseconds=microseconds))


def _seconds(length: float) -> str:
    return units.duration_text(timedelta(seconds=length))


def slow(found: Sequence[Slowness]) -> Table:
    """Types, and whether their jobs wait or run."""
    return Table(
        columns=("type", "queue", "jobs#", "wait p50/95/99", "run p50/95/99", "mostly"),
        rows=[
            (
                it.type,
                it.queue,
                f"{it.jobs}",
                _spread(it.wait),
                _spread(it.run),
                "waiting" if it.mostly == "wait" else "running",
            )
            for it in found
        ],
        empty="no finished jobs match",
    )


def _spread(it: Spread) -> str:
    return " / ".join(map(_short, (it.p50, it.p95, it.p99)))


def _short(seconds: float) -> str:
    """Two or three figures in the unit that suits them: `9µs`, `1.0ms`, `217ms`, `4.1s`."""
    for size, unit in ((1.0, "s"), (1e-3, "ms")):
        # What rounds to a thousand of the smaller unit is one of the larger.
        if seconds >= size * 0.9995:
            value = seconds / size
            return f"{value:.1f}{unit}" if value < 9.95 else f"{value:,.0f}{unit}"
    return f"{seconds * 1e6:.0f}µs"


def _rough(microseconds: int) -> str:
    whole = microseconds // _SECOND
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if whole >= size:
            return f"{whole // size}{unit}"
    return f"{whole}s"
