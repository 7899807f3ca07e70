"""The part of the engine contract that is about flow control: what is said of queues."""

from typing import Protocol

from longshore.core.flow import (
    BreakerFlow,
    BreakerSettings,
    Layer,
    QueueFlow,
    QueueSettings,
)
from longshore.core.line import Line

__all__ = ["Flow"]


class Flow(Protocol):
    """Keeps what code declares and what operators override, each in a layer of its own."""

    async def put_queue(
        self,
        name: str,
        layer: Layer,
        settings: QueueSettings,
        *,
        seen: QueueSettings | None = None,
    ) -> bool:
        """Replace a layer of what is said of a queue; settings that say nothing remove it.

        With `seen`, only if the layer still stands exactly so: if not, and it does not stand
        as wanted either, False, and nothing is stored. It wakes workers that wait. What makes
        no sense is a ConfigError.
        """
        ...

    async def queue_settings(self) -> list[QueueFlow]:
        """Every queue of which something is said, by name."""
        ...

    async def put_breaker(
        self,
        type: str,
        layer: Layer,
        settings: BreakerSettings,
        *,
        seen: BreakerSettings | None = None,
    ) -> bool:
        """The same for the circuit breaker of a type.

        While it is open, jobs of the type wait, `parked` as "breaker" and uncharged; while it
        is half-open, no more of them run than its probes. How exchanges settle moves it.
        """
        ...

    async def breaker_settings(self) -> list[BreakerFlow]:
        """Every type of whose breaker something is said, by name, and how each stands."""
        ...

    async def reset_breaker(self, type: str) -> None:
        """Close a type's breaker, and forget what it has counted. Harmless if it is closed."""
        ...

    async def line(self, queue: str, key: str, *, tenant: str = "default") -> Line | None:
        """How the line of an ordering key stands; None when it has no jobs."""
        ...

    async def blocked_lines(self, *, limit: int, tenant: str | None = None) -> list[Line]:
        """Up to `limit` lines that dead jobs block, by queue, tenant and key."""
        ...

    async def release_line(self, queue: str, key: str, *, tenant: str = "default") -> bool:
        """Let a blocked line go on without the dead; False if none block it."""
        ...
