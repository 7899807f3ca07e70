"""Ordering keys, as people see them."""

from typing import Protocol

from longshore.core.ordering_key import Line

__all__ = ["OrderingKeys"]


class OrderingKeys(Protocol):
    """Shows ordering keys, and lets blocked ones go on."""

    async def line(self, queue: str, key: str, *, tenant: str = "default") -> Line | None:
        """How the line of an ordering key stands; None when it has no jobs."""
        ...

    async def blocked_lines(self, *, limit: int, tenant: str | None = None) -> list[Line]:
        """Up to `limit` lines that dead jobs block, by queue, tenant and key."""
        ...

    async def release_line(self, queue: str, key: str, *, tenant: str = "default") -> bool:
        """Let a blocked line go on without the dead; False if none block it."""
        ...
