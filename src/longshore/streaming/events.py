"""What is told of an event, and who wants to hear of it."""

from datetime import datetime
from functools import cached_property

import msgspec

from longshore.core import ids, sse
from longshore.core.event import EXPENDABLE, NOBODY, Event, Group, Name
from longshore.core.instant import moment
from longshore.core.job import Job, JobId
from longshore.core.sse import Cursor

__all__ = ["ENDINGS", "SNAPSHOT", "JobEvent", "Told", "Wish", "snapshot"]

SNAPSHOT = "job.snapshot"
"""Not an event: how a job stands when someone begins to follow it."""
ENDINGS = frozenset({Name.SUCCEEDED, Name.DEAD, Name.CANCELLED, Name.PURGED})
"""What a job's stream ends with."""

_encode = msgspec.json.Encoder().encode


class JobEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened."""

    id: str
    """Stable, and where a stream goes on after it."""
    name: str
    """`job.succeeded`, `job.progress`, …; `job.snapshot` tells how the job stands."""
    at: datetime
    job_id: str | None
    """Null where no single job is concerned."""
    queue: str
    type: str
    tenant: str
    details: dict[str, object]
    """What else is known: attempt, error, reason, progress."""
    trace: str | None = None
    """The W3C traceparent of whoever submitted the job."""

    @property
    def is_last(self) -> bool:
        """The job has ended."""
        return self.name in ENDINGS or (
            self.name == SNAPSHOT and self.details.get("state") in _OVER
        )


_OVER = frozenset({"succeeded", "dead", "cancelled"})


class Told:
    """An event on its way to any number of readers, written once for all of them."""

    def __init__(self, cursor: Cursor, event: JobEvent, *, is_expendable: bool) -> None:
        self.cursor = cursor
        self.event = event
        self.is_expendable = is_expendable

    @classmethod
    def of(cls, found: Event) -> "Told":
        """What is told of an event of the outbox."""
        position, _, index = found.id.partition(".")
        event = JobEvent(
            id=found.id,
            name=found.name.value,
            at=moment(found.at),
            job_id=ids.text(found.job_id) if found.job_id != NOBODY else None,
            queue=found.queue,
            type=found.type,
            tenant=found.tenant,
            details=found.details,
            trace=found.trace,
        )
        cursor = Cursor(int(position), int(index))
        return cls(cursor, event, is_expendable=found.name in EXPENDABLE)

    @cached_property
    def frame(self) -> bytes:
        """As it goes over the wire."""
        return sse.frame(self.event.id, self.event.name, _encode(self.event))


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """Which events someone wants to hear of; None: any."""

    tenant: str | None = None
    queue: str | None = None
    type: str | None = None
    names: frozenset[str] | None = None
    job_id: JobId | None = None

    def may_fit(self, group: Group) -> bool:
        """Whether a group may hold one of them."""
        if self.names is not None and group.name not in self.names:
            return False
        if self.queue is not None and group.queue != self.queue:
            return False
        if self.job_id is not None and self.job_id not in group.ids:
            return False
        is_typed = self.type is None or group.types or group.type == self.type
        is_owned = self.tenant is None or group.tenants or group.tenant == self.tenant
        return bool(is_typed and is_owned)

    def fits(self, event: Event) -> bool:
        """Whether it is one of them."""
        return (
            (self.job_id is None or event.job_id == self.job_id)
            and (self.tenant is None or event.tenant == self.tenant)
            and (self.type is None or event.type == self.type)
            and (self.queue is None or event.queue == self.queue)
            and (self.names is None or event.name in self.names)
        )


def snapshot(job: Job, cursor: Cursor, now: int) -> Told:
    """How a job stands; what happens from here on follows."""
    details: dict[str, object] = {
        "state": job.state.value,
        "attempt": job.attempt,
        "delivery": job.delivery,
        "failures": job.failures,
        "cancel_requested": job.cancel_requested,
    }
    if job.reason is not None:
        details["reason"] = job.reason
    if job.failure is not None:
        details["error"] = {"kind": job.failure.kind, "message": job.failure.message}
    if job.progress is not None:
        details["fraction"] = job.progress.fraction
        details["message"] = job.progress.message
    event = JobEvent(
        id=str(cursor),
        name=SNAPSHOT,
        at=moment(now),
        job_id=ids.text(job.id),
        queue=job.queue,
        type=job.type,
        tenant=job.tenant,
        details=details,
        trace=job.trace,
    )
    return Told(cursor, event, is_expendable=False)
