"""Consumers of the outbox: their documents, and what API, command line and SDK do with them."""

from datetime import datetime

import msgspec

from longshore.core import ids
from longshore.core.consumer import Consumer, Quarantined
from longshore.core.event import NOBODY, Name
from longshore.errors import NotFoundError
from longshore.operations.fields import instant, moment
from longshore.operations.local import EngineOperations
from longshore.records import quarantine

__all__ = [
    "ConsumerList",
    "ConsumerView",
    "OutboxOperations",
    "QuarantinedList",
    "QuarantinedView",
    "consumer_view",
    "quarantine_place",
    "quarantined_view",
]

_SECOND = 1_000_000


class ConsumerView(msgspec.Struct, frozen=True, kw_only=True):
    """A reader of the outbox for whom events are kept, such as the relay to Kafka."""

    name: str
    position: int
    """The last batch of events that it is done with."""
    behind: int
    """About how many batches it has not passed yet."""
    lag_seconds: float
    """How old the oldest of them is; 0 when it has passed all."""
    holder: str | None
    """The process that reads for it now."""
    seen_at: datetime
    """When a process last read for it, to within its lease."""
    gone_at: datetime | None
    """Since when no events are kept for it: it was absent for too long."""


class ConsumerList(msgspec.Struct, frozen=True):
    """Consumers, by name."""

    consumers: list[ConsumerView]
    cursor: str | None
    """Where the next page begins; null at the end."""


class QuarantinedView(msgspec.Struct, frozen=True, kw_only=True):
    """An event that a consumer could not hand on, set aside so that the others flow."""

    event_id: str
    consumer: str
    name: Name
    """Of the event: `job.succeeded`, …"""
    job_id: str | None
    """Null where no single job is concerned."""
    reason: str
    at: datetime
    """When it was set aside."""
    size_bytes: int
    """Of the body."""
    body: str
    """What was to be handed on; what is not UTF-8 in it is replaced."""


class QuarantinedList(msgspec.Struct, frozen=True):
    """Events that were set aside, newest first."""

    events: list[QuarantinedView]
    cursor: str | None
    """Where the next page begins; null at the end."""


class OutboxOperations(EngineOperations):
    """What is done with consumers on an engine."""

    async def consumers(self) -> list[ConsumerView]:
        """Every reader of the outbox for whom events are kept, by name."""
        now = await self._engine.now()
        found = sorted(await self._engine.consumers(), key=lambda one: one.name)
        return [consumer_view(one, now) for one in found]

    async def forget_consumer(self, name: str) -> None:
        """Keep no more events for a consumer, or NotFoundError."""
        if not await self._engine.delete_consumer(name):
            raise NotFoundError(f"no consumer is named {name!r}")

    async def quarantined(self, *, limit: int) -> list[QuarantinedView]:
        """The newest events that consumers could not hand on, at most so many."""
        found = await quarantine.latest(self._engine, limit=limit)
        return [quarantined_view(one) for one in sorted(found, key=quarantine_place)]


def consumer_view(it: Consumer, now: int) -> ConsumerView:
    """A consumer's document, at a time of the store's clock."""
    lag = 0 if it.waits_since is None else max(now - it.waits_since, 0)
    return ConsumerView(
        name=it.name,
        position=it.position,
        behind=it.behind,
        lag_seconds=lag / _SECOND,
        holder=it.holder,
        seen_at=instant(it.seen_at),
        gone_at=moment(it.gone_at),
    )


def quarantine_place(it: Quarantined) -> tuple[int, str, str]:
    """Where an event stands among those that were set aside: newest first."""
    return (-it.at, it.consumer, it.event_id)


def quarantined_view(it: Quarantined) -> QuarantinedView:
    """The document of an event that was set aside."""
    return QuarantinedView(
        event_id=it.event_id,
        consumer=it.consumer,
        name=it.name,
        job_id=None if it.job_id == NOBODY else ids.text(it.job_id),
        reason=it.reason,
        at=instant(it.at),
        size_bytes=len(it.body),
        body=it.body.decode(errors="replace"),
    )
