"""The audit log as a list, and records of orders as they are carried out."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from longshore.core import audit, audit_record
from longshore.core.audit import Chained, Entry, Kind, Pending, Standing
from longshore.core.consumer import Cursor
from longshore.runtime.acting import actor
from longshore.testing.model.outbox import ModelOutbox
from longshore.testing.model.store import Store

__all__ = ["ModelAudit", "recording"]

C = TypeVar("C", bound=type)


class ModelAudit(ModelOutbox):
    """See `longshore.contract.audit.Audit`."""

    async def chain(
        self, *, limit: int, cursor: Cursor | None = None, after: int = 0
    ) -> Chained:
        """See `longshore.contract.audit.Audit`."""
        self._store.now()
        batches = await self.unread(cursor, after=after, limit=limit) if cursor else []
        log = self._store.log
        found, log.deeds = log.deeds[:limit], log.deeds[limit:]
        entries = [*audit.of_records(found), *audit.of_batches(batches)]
        self._store.log.append(entries)
        if cursor is not None and batches:
            after = batches[-1].position
            await self.advance(cursor, position=after)
        return Chained(len(entries), after, is_more=limit in (len(found), len(batches)))

    async def audit_entries(self, *, after: int, limit: int) -> list[Entry]:
        """See `longshore.contract.audit.Audit`."""
        self._store.now()
        return [one for one in self._store.log.entries if one.number > after][:limit]

    async def latest_entries(
        self, *, before: int, limit: int, kind: Kind | None = None
    ) -> list[Entry]:
        """See `longshore.contract.audit.Audit`."""
        self._store.now()
        found = [one for one in self._store.log.entries if one.number < before]
        return [one for one in reversed(found) if kind in (None, one.kind)][:limit]

    async def audit_standing(self) -> Standing:
        """See `longshore.contract.audit.Audit`."""
        self._store.now()
        return self._store.log.standing


def recording(kind: C) -> C:
    """The same engine, whose orders leave a record."""
    for name in audit_record.RECORDED:
        setattr(kind, name, _recorded(name, getattr(kind, name)))
    return kind


def _recorded(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(method)

    @wraps(method)
    async def both(self: Any, *args: Any, **options: Any) -> Any:
        given = signature.bind(self, *args, **options)
        given.apply_defaults()
        result = await method(self, *args, **options)
        arguments = {one: value for one, value in given.arguments.items() if one != "self"}
        done = audit_record.of(name, arguments, actor=actor())
        store: Store = self._store
        # Nobody is left to drain where the session has ended.
        is_vain = name == "quiet" and arguments["token"] not in store.leases
        if done is not None and result is not False and not is_vain:
            store.log.deeds.append(Pending(0, store.now(), done))
        return result

    return both
