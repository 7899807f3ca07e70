"""The outbox over HTTP."""

from collections.abc import Sequence
from typing import Any

from longshore.core.consumer import Consumer, Cursor, Quarantined
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

    async def take_cursor(self, consumer: str, *, holder: str, lease: int) -> Cursor | None:
        """The right to read for a consumer."""
        return await self._ask("take_cursor", consumer=consumer, holder=holder, lease=lease)

    async def unread(self, cursor: Cursor, *, after: int, limit: int) -> list[EventBatch]:
        """Batches behind a position, for a consumer."""
        return await self._ask("unread", cursor=cursor, after=after, limit=limit)

    async def advance(
        self, cursor: Cursor, *, position: int, quarantined: Sequence[Quarantined] = ()
    ) -> None:
        """Move a cursor on."""
        aside = list(quarantined)
        await self._ask("advance", cursor=cursor, position=position, quarantined=aside)

    async def leave_cursor(self, cursor: Cursor) -> None:
        """Let another take it."""
        await self._ask("leave_cursor", cursor=cursor)

    async def consumers(self) -> list[Consumer]:
        """Every consumer, by name."""
        return await self._ask("consumers")

    async def delete_consumer(self, name: str) -> bool:
        """Forget a consumer."""
        return await self._ask("delete_consumer", name=name)

    async def mute(self, is_muted: bool) -> bool:
        """Store no progress, or store it again."""
        return await self._ask("mute", is_muted=is_muted)

    async def is_muted(self) -> bool:
        """Whether progress is left out."""
        return await self._ask("is_muted")

    async def quarantined(self, *, limit: int) -> list[Quarantined]:
        """What was set aside, newest first."""
        return await self._ask("quarantined", limit=limit)
