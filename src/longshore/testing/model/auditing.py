"""The audit log as a list."""

from longshore.core import audit
from longshore.core.audit import Chained, Entry, Kind, Standing
from longshore.core.consumer import Cursor
from longshore.testing.model.outbox import ModelOutbox

__all__ = ["ModelAudit"]


class ModelAudit(ModelOutbox):
    """See `longshore.contract.audit.Audit`."""

    async def chain(
        self, *, limit: int, cursor: Cursor | None = None, after: int = 0
    ) -> Chained:
        """See `longshore.contract.audit.Audit`."""
        self._store.now()
        batches = []
        if cursor is not None:
            batches = await self.events(after=after, limit=limit, cursor=cursor)
        log = self._store.log
        found, log.deeds = log.deeds[:limit], log.deeds[limit:]
        entries = [*audit.of_records(found), *audit.of_batches(batches)]
        self._store.log.append(entries)
        if cursor is not None and batches:
            after = batches[-1].position
            await self.advance(cursor, position=after)
        return Chained(len(entries), after, is_more=limit in (len(found), len(batches)))

    async def audit_entries(
        self,
        *,
        limit: int,
        after: int | None = None,
        before: int | None = None,
        kind: Kind | None = None,
    ) -> list[Entry]:
        """See `longshore.contract.audit.Audit`."""
        self._store.now()
        audit.check_range(after, before, kind)
        entries = self._store.log.entries
        if before is None:
            return [one for one in entries if one.number > (after or 0)][:limit]
        found = [one for one in reversed(entries) if one.number < before]
        return [one for one in found if kind in (None, one.kind)][:limit]

    async def audit_standing(self) -> Standing:
        """See `longshore.contract.audit.Audit`."""
        self._store.now()
        return self._store.log.standing
