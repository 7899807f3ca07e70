"""The event catalogue, and the compact form in which a batch of transitions is stored.

A transaction writes one outbox row for all its transitions: a list of groups, each with the
ids of the jobs that share everything else. An event's id is (row, index): it never changes,
however often it is read.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum

import msgspec

from longshore.core.job import JobId, Report, Settlement
from longshore.core.state import Verb

__all__ = [
    "EXPENDABLE",
    "NOBODY",
    "SETTLED",
    "Event",
    "EventBatch",
    "Group",
    "Name",
    "Span",
    "decode",
    "details",
    "encode",
    "expand",
    "names",
    "progress",
]


class Name(StrEnum):
    """Every event there is."""

    SUBMITTED = "job.submitted"
    """A job was accepted."""
    READY = "job.ready"
    """A scheduled job became due, or was told to run now."""
    STARTED = "job.started"
    """The engine learned that a handler began; not later than the attempt's end."""
    PROGRESS = "job.progress"
    """A running job told how far it is; the first kind to be dropped when there is too much."""
    SUCCEEDED = "job.succeeded"
    """The handler returned."""
    FAILED = "job.failed"
    """An attempt failed; `job.retrying` or `job.dead` follows at once."""
    RETRYING = "job.retrying"
    """The job was scheduled to run again."""
    SNOOZED = "job.snoozed"
    """The handler asked to run later, or there was no room to run it; nothing was charged."""
    RELEASED = "job.released"
    """A worker gave the job back unharmed."""
    RECLAIMED = "job.reclaimed"
    """The job's worker vanished, and it is ready again."""
    DEAD = "job.dead"
    """No attempt is left, or none can help."""
    CANCEL_REQUESTED = "job.cancel_requested"
    """Someone asked for a running job to stop."""
    CANCELLED = "job.cancelled"
    """The job was cancelled: at once, by its worker, or when its worker had vanished."""
    REPLAYED = "job.replayed"
    """A dead or cancelled job was made ready again."""
    PURGED = "job.purged"
    """A finished job was deleted by hand, or a dead one by retention."""
    SCHEDULE_FIRED = "schedule.fired"
    """A due time's job was submitted."""
    SCHEDULE_SKIPPED = "schedule.skipped"
    """A due time got no job, because the last one was still live."""
    BREAKER_OPENED = "breaker.opened"
    """Jobs of a type fail, and are not handed out for a while."""
    BREAKER_HALF_OPENED = "breaker.half_opened"
    """The while is over, and a few jobs try whether it works again."""
    BREAKER_CLOSED = "breaker.closed"
    """It does, or someone said so: jobs of the type are handed out again."""


NOBODY = JobId(bytes(16))
"""The job of an event that concerns no single job."""

EXPENDABLE = frozenset({Name.PROGRESS})
"""Events that nothing depends on: a relay that cannot keep up may leave these out."""

SETTLED: dict[Verb, Name] = {
    Verb.SUCCEED: Name.SUCCEEDED,
    Verb.RETRY: Name.RETRYING,
    Verb.SNOOZE: Name.SNOOZED,
    Verb.RELEASE: Name.RELEASED,
    Verb.RECLAIM: Name.RECLAIMED,
    Verb.KILL: Name.DEAD,
    Verb.CANCEL: Name.CANCELLED,
}
"""The event that each settling verb ends with."""


class Group(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Transitions of one name in one queue, of jobs with the same trace context or none."""

    name: Name
    queue: str
    type: str
    tenant: str
    ids: bytes
    """Sixteen bytes per job."""
    details: list[dict[str, object]] = []
    """One per job where they differ (attempt, error, reason, due time); else empty."""
    types: list[str] = []
    """One per job where they differ; `type` says nothing then."""
    tenants: list[str] = []
    """The same."""
    trace: str | None = None
    """The W3C traceparent of all of them."""


class EventBatch(msgspec.Struct, frozen=True, gc=False):
    """One outbox row: the transitions of one transaction, in order."""

    position: int
    at: int
    groups: list[Group]

    @property
    def count(self) -> int:
        """How many events it holds."""
        return sum(len(group.ids) for group in self.groups) // 16


class Span(msgspec.Struct, frozen=True, gc=False):
    """The positions that an outbox holds."""

    first: int
    """Of the oldest batch that was not pruned; past `last` when there is none."""
    last: int
    """Of the newest one, also if that was pruned; 0 before the first."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """One transition of one job."""

    id: str
    """`position.index`: stable, and in order."""
    name: Name
    at: int
    job_id: JobId
    queue: str
    type: str
    tenant: str
    details: dict[str, object]
    trace: str | None = None
    """The W3C traceparent of whoever submitted the job."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Group])


def encode(groups: Sequence[Group]) -> bytes:
    """The stored form of one transaction's transitions."""
    return _encoder.encode(groups)


def decode(body: bytes) -> list[Group]:
    """What `encode` was given; a msgspec.DecodeError for what it never writes."""
    groups = _decoder.decode(body)
    for group in groups:
        count, rest = divmod(len(group.ids), 16)
        lists = (group.details, group.types, group.tenants)
        # Whoever reads event by event would stop at it, and never come further.
        if rest or any(len(one) not in (0, count) for one in lists):
            raise msgspec.ValidationError("its lists are not one entry per job")
    return groups


def expand(
    batch: EventBatch, *, start: int = 0, among: Callable[[Group], bool] | None = None
) -> Iterable[Event]:
    """The batch's events one by one, in order, without the first `start` of them.

    Those of a group are left out where `among` is given and says no.
    """
    first = 0
    for group in batch.groups:
        count = len(group.ids) // 16
        is_wanted = among is None or among(group)
        for offset in range(max(start - first, 0), count if is_wanted else 0):
            yield Event(
                f"{batch.position}.{first + offset}",
                group.name,
                batch.at,
                JobId(group.ids[offset * 16 : offset * 16 + 16]),
                group.queue,
                group.types[offset] if group.types else group.type,
                group.tenants[offset] if group.tenants else group.tenant,
                group.details[offset] if group.details else {},
                group.trace,
            )
        first += count


def names(settlement: Settlement, *, start_is_known: bool) -> tuple[Name, ...]:
    """The events that applying a settlement writes, in order."""
    ending = SETTLED[settlement.verb]
    if settlement.started_at is None or start_is_known:
        return (Name.FAILED, ending) if settlement.charge else (ending,)
    return (Name.STARTED, Name.FAILED, ending) if settlement.charge else (Name.STARTED, ending)


def details(settlement: Settlement) -> dict[str, object]:
    """What the events of a settlement tell besides their name."""
    facts: dict[str, object] = {"delivery": settlement.delivery}
    if settlement.failure is not None:
        why = settlement.failure
        facts["error"] = {"kind": why.kind, "message": why.message}
    if settlement.reason is not None:
        facts["reason"] = settlement.reason
    if settlement.verb in (Verb.RETRY, Verb.SNOOZE):
        facts["delay_us"] = settlement.delay
    return facts


def progress(report: Report) -> dict[str, object]:
    """What the event of a report tells."""
    return {
        "delivery": report.delivery,
        "fraction": report.fraction,
        "message": report.message,
    }
