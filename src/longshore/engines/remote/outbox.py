"""The outbox over HTTP."""

from typing import Any

from longshore.core.consumer import Consumer, Quarantined
from longshore.core.event import EventBatch, Span

__all__ = ["RemoteOutbox"]


class RemoteOutbox:
    """What happened, as a service tells it."""

    async def _ask(self, name: str, /, **parameters: object) -> Any: ...

    async def events(self, *, after: int, limit: int) -> list[EventBatch]:
        """Batches behind a position, in order."""
        return await self._ask("events", after=after, limit=limit)

    async def span(self) -> Span:
        """Which positions are kept."""
        return await self._ask("span")

    async def consumers(self) -> list[Consumer]:
        """Every consumer, by name."""
        return await self._ask("consumers")

    async def delete_consumer(self, name: str) -> bool:
        """Forget a consumer."""
        return await self._ask("delete_consumer", name=name)

    async def quarantined(self, *, limit: int) -> list[Quarantined]:
        """What was set aside, newest first."""
        return await self._ask("quarantined", limit=limit)
