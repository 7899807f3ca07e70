"""The model's answer to those who set limits."""

from typing import TypeVar

from longshore.core import breaker, flow
from longshore.core.flow import (
    BreakerFlow,
    BreakerSettings,
    Layer,
    Order,
    QueueFlow,
    QueueSettings,
)
from longshore.core.line import Line, LineName, may_open
from longshore.testing.model.store import Store

__all__ = ["ModelFlow"]

Settings = TypeVar("Settings", QueueSettings, BreakerSettings)


class ModelFlow:
    """Keeps what is said of queues and types."""

    _store: Store

    async def put_queue(
        self,
        name: str,
        layer: Layer,
        settings: QueueSettings,
        *,
        seen: QueueSettings | None = None,
    ) -> bool:
        """See `longshore.contract.flow.Flow`."""
        flow.validate(name, settings)
        before = self._store.effective(name)
        is_put = self._put(self._store.queue_settings, (name, layer), settings, seen)
        if is_put and may_open(before, self._store.effective(name)):
            self._store.lines.look_at(name)
        if self._store.effective(name).order is not Order.FAIR:
            self._store.shares.forget(name)
        if not any((name, one) in self._store.queue_settings for one in Layer):
            self._store.queue_buckets.pop(name, None)
        return is_put

    async def queue_settings(self) -> list[QueueFlow]:
        """See `longshore.contract.flow.Flow`."""
        rows = [(name, layer, it) for (name, layer), it in self._store.queue_settings.items()]
        return flow.paced(flow.queues(rows), self._store.queue_buckets, self._store.now())

    async def put_breaker(
        self,
        type: str,
        layer: Layer,
        settings: BreakerSettings,
        *,
        seen: BreakerSettings | None = None,
    ) -> bool:
        """See `longshore.contract.flow.Flow`."""
        flow.validate(type, settings)
        is_put = self._put(self._store.breaker_settings, (type, layer), settings, seen)
        if type not in self._store.breakers():
            self._store.standings.pop(type, None)
        return is_put

    async def breaker_settings(self) -> list[BreakerFlow]:
        """See `longshore.contract.flow.Flow`."""
        rows = [(name, layer, it) for (name, layer), it in self._store.breaker_settings.items()]
        return breaker.shown(flow.breakers(rows), self._store.standings, self._store.now())

    async def reset_breaker(self, type: str) -> None:
        """See `longshore.contract.flow.Flow`."""
        self._store.reset(type)
        self._store.commit()

    async def line(self, queue: str, key: str, *, tenant: str = "default") -> Line | None:
        """See `longshore.contract.flow.Flow`."""
        self._store.now()
        return self._store.lines.get(LineName(queue, tenant, key))

    async def blocked_lines(self, *, limit: int, tenant: str | None = None) -> list[Line]:
        """See `longshore.contract.flow.Flow`."""
        self._store.now()
        lines = self._store.lines
        found = [lines.get(name) for name in lines.blocked() if tenant in (None, name.tenant)]
        return [one for one in found if one is not None][:limit]

    async def release_line(self, queue: str, key: str, *, tenant: str = "default") -> bool:
        """See `longshore.contract.flow.Flow`."""
        self._store.now()
        is_blocked = self._store.lines.release(LineName(queue, tenant, key))
        self._store.commit()
        return is_blocked

    def _put(
        self,
        stored: dict[tuple[str, Layer], Settings],
        key: tuple[str, Layer],
        settings: Settings,
        seen: Settings | None,
    ) -> bool:
        self._store.now()
        if not flow.may_put(stored.get(key, type(settings)()), settings, seen):
            return False
        stored[key] = settings
        if not flow.said(settings):
            del stored[key]
        self._store.commit()
        return True
