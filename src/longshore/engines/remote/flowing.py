"""What is said of queues and of the breakers of types, and how lines stand, over HTTP."""

from typing import Any

from longshore.core import flow
from longshore.core.flow import (
    BreakerFlow,
    BreakerSettings,
    Layer,
    QueueFlow,
    QueueSettings,
)
from longshore.core.line import Line

__all__ = ["RemoteFlow"]


class RemoteFlow:
    """Each call is one request."""

    async def _ask(self, name: str, /, **arguments: Any) -> Any: ...

    async def put_queue(
        self,
        name: str,
        layer: Layer,
        settings: QueueSettings,
        *,
        seen: QueueSettings | None = None,
    ) -> bool:
        """Replace a layer of what is said of a queue."""
        flow.validate(name, settings)
        return await self._ask(
            "put_queue", name=name, layer=layer, settings=settings, seen=seen
        )

    async def queue_settings(self) -> list[QueueFlow]:
        """All that is said of queues."""
        return await self._ask("queue_settings")

    async def put_breaker(
        self,
        type: str,
        layer: Layer,
        settings: BreakerSettings,
        *,
        seen: BreakerSettings | None = None,
    ) -> bool:
        """Replace a layer of what is said of a type's breaker."""
        flow.validate(type, settings)
        return await self._ask(
            "put_breaker", type=type, layer=layer, settings=settings, seen=seen
        )

    async def breaker_settings(self) -> list[BreakerFlow]:
        """All that is said of breakers."""
        return await self._ask("breaker_settings")

    async def reset_breaker(self, type: str) -> None:
        """Close a type's breaker, and forget what it has counted."""
        await self._ask("reset_breaker", type=type)

    async def line(self, queue: str, key: str, *, tenant: str = "default") -> Line | None:
        """How the line of an ordering key stands."""
        return await self._ask("line", queue=queue, key=key, tenant=tenant)

    async def blocked_lines(self, *, limit: int, tenant: str | None = None) -> list[Line]:
        """The lines that dead jobs block."""
        return await self._ask("blocked_lines", limit=limit, tenant=tenant)

    async def release_line(self, queue: str, key: str, *, tenant: str = "default") -> bool:
        """Let a blocked line go on without the dead."""
        return await self._ask("release_line", queue=queue, key=key, tenant=tenant)
