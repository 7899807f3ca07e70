"""Events as CloudEvents 1.0: the same event has the same attributes at every delivery."""

import msgspec

from longshore.core import ids
from longshore.core.event import NOBODY, Event
from longshore.core.instant import moment, rfc3339

__all__ = [
    "CONTENT_TYPE",
    "PREFIX",
    "SPEC_VERSION",
    "data",
    "kind",
    "sequence",
    "subject",
    "time",
]

SPEC_VERSION = "1.0"
CONTENT_TYPE = "application/json"
PREFIX = "dev.longshore."
_VERSION = ".v1"

_encode = msgspec.json.Encoder().encode


def kind(event: Event) -> str:
    """The `type`: `dev.longshore.job.succeeded.v1`."""
    return f"{PREFIX}{event.name}{_VERSION}"


def subject(event: Event) -> str:
    """Whom it is about, and who shares an order: the job, else what has a name."""
    if event.job_id != NOBODY:
        return ids.text(event.job_id)
    return str(event.details.get("schedule") or event.type)


def sequence(event: Event) -> str:
    """Grows from event to event, as text too."""
    position, _, index = event.id.partition(".")
    return f"{position:0>19}.{index:0>6}"


def time(at: int) -> str:
    """The moment as RFC 3339 has it."""
    return rfc3339(moment(at), "microseconds")


def data(event: Event) -> bytes:
    """What it tells, as JSON."""
    facts: dict[str, object] = {
        "queue": event.queue,
        "type": event.type,
        "tenant": event.tenant,
        **event.details,
    }
    if event.job_id != NOBODY:
        facts = {"job": ids.text(event.job_id), **facts}
    return _encode(facts)
