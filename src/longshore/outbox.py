"""The part of the contract that tells what happened, to relays, streams and audits."""

from collections.abc import Sequence
from typing import Protocol

from longshore.core.event import EventBatch, Span

__all__ = ["Outbox"]


class Outbox(Protocol):
    """Reads what happened."""

    async def events(self, *, after: int, limit: int) -> list[EventBatch]:
        """Up to `limit` batches with a position greater than `after`, in order of commit."""
        ...

    async def span(self) -> Span:
        """Which positions are kept. What was committed before the call is not behind `last`."""
        ...

    async def unpublished(self, *, limit: int) -> list[EventBatch]:
        """The oldest batches that no relay has marked yet."""
        ...

    async def published(self, positions: Sequence[int]) -> None:
        """Mark batches as shipped; pruning may take them from now on."""
        ...
