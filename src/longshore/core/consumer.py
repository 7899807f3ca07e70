"""Who reads the outbox, how far each has come, and what nobody would take."""

from collections.abc import Iterable

import msgspec

from longshore.core.event import Name
from longshore.core.job import JobId

__all__ = ["Consumer", "Cursor", "Quarantined", "is_over"]


class Cursor(msgspec.Struct, frozen=True):
    """The right to read on for a consumer, until somebody else has it."""

    consumer: str
    token: int
    """Fences: grows with every holder."""
    position: int
    """How far the consumer had come when this was taken."""
    gone_at: int | None = None
    """Since when nobody waits for the consumer any more: events from then on may be missing."""


class Quarantined(msgspec.Struct, frozen=True):
    """An event that a consumer was not able to hand on, set aside so that others flow."""

    consumer: str
    event_id: str
    name: Name
    job_id: JobId
    reason: str
    body: bytes
    """What was to be handed on."""
    at: int = 0
    """When it was set aside, by the engine's clock."""


class Consumer(msgspec.Struct, frozen=True):
    """How a consumer stands."""

    name: str
    position: int
    """The last batch that it is done with."""
    behind: int
    """About how many batches it has not passed yet."""
    waits_since: int | None
    """When the oldest of them was written; None when it has passed all."""
    holder: str | None
    """Who reads for it now."""
    seen_at: int
    """When somebody last read for it, to within its lease."""
    gone_at: int | None = None
    """Since when nobody waits for it: it was absent for too long."""


def is_over(found: Iterable[Consumer], most: int, *, was_over: bool) -> bool:
    """Whether more than `most` batches are kept for a consumer; once so, more than half of it.

    For one that is gone nothing is kept.
    """
    bound = most // 2 if was_over else most
    return any(one.behind > bound for one in found if one.gone_at is None)
