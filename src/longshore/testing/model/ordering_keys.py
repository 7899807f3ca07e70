"""The model's ordering keys, as people see them."""

from longshore.core import audit_record
from longshore.core.ordering_key import Line, LineName
from longshore.runtime.actor import signed
from longshore.testing.model.store import Store

__all__ = ["ModelOrderingKeys"]


class ModelOrderingKeys:
    """Shows ordering keys, and lets blocked ones go on."""

    _store: Store

    async def line(self, queue: str, key: str, *, tenant: str = "default") -> Line | None:
        """See `longshore.contract.ordering_keys.OrderingKeys`."""
        self._store.now()
        return self._store.lines.get(LineName(queue, tenant, key))

    async def blocked_lines(self, *, limit: int, tenant: str | None = None) -> list[Line]:
        """See `longshore.contract.ordering_keys.OrderingKeys`."""
        self._store.now()
        lines = self._store.lines
        found = [lines.get(name) for name in lines.blocked() if tenant in (None, name.tenant)]
        return [one for one in found if one is not None][:limit]

    async def release_line(self, queue: str, key: str, *, tenant: str = "default") -> bool:
        """See `longshore.contract.ordering_keys.OrderingKeys`."""
        self._store.now()
        is_blocked = self._store.lines.release(LineName(queue, tenant, key))
        if is_blocked:
            self._store.record(signed(audit_record.line_released(queue, key, tenant)))
        self._store.commit()
        return is_blocked
