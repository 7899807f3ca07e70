"""The audit log over HTTP."""

from typing import Any

from longshore.core.audit import Entry, Kind, Standing

__all__ = ["RemoteAudit"]


class RemoteAudit:
    """Who did what, as a service keeps it."""

    async def _ask(self, name: str, /, **parameters: object) -> Any: ...

    async def audit_entries(self, *, after: int, limit: int) -> list[Entry]:
        """Entries behind a number, oldest first."""
        return await self._ask("audit_entries", after=after, limit=limit)

    async def latest_entries(
        self, *, before: int, limit: int, kind: Kind | None = None
    ) -> list[Entry]:
        """Entries before a number, newest first."""
        return await self._ask("latest_entries", before=before, limit=limit, kind=kind)

    async def audit_standing(self) -> Standing:
        """Where the log begins and ends."""
        return await self._ask("audit_standing")
