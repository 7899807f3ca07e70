"""Tell when consumers of the outbox fall behind, or are gone: events then fill the store."""

import logging
import random
from collections.abc import Callable
from typing import Protocol

from longshore.core.consumer import Consumer

__all__ = ["Watch", "alarm"]

log = logging.getLogger("longshore.outbox")

_AFTER = 300.0
_EVERY = 5.0
_AGAIN = 60.0
_SECOND = 1_000_000


class Store(Protocol):
    """Whoever knows the consumers, and the time."""

    async def consumers(self) -> list[Consumer]:
        """Every consumer, by name."""
        ...

    async def now(self) -> int:
        """The engine's clock, microseconds since the epoch."""
        ...


def alarm(one: Consumer, now: int, *, after: float) -> str | None:
    """What is wrong with a consumer, if anything; `after` is in seconds."""
    if one.gone_at is not None:
        return "consumer gone"
    if one.waits_since is not None and now - one.waits_since > after * _SECOND:
        return "consumer behind"
    return None


class Watch:
    """Logs what is wrong with consumers, again every minute, and when it is over."""

    def __init__(
        self,
        engine: Store,
        *,
        after: float = _AFTER,
        rng: random.Random | None = None,
        on_look: Callable[[float, int], None] | None = None,
    ) -> None:
        """`on_look` hears how many seconds, and batches, the slowest consumer is behind."""
        self._engine = engine
        self._after = after
        self._rng = rng or random.Random()
        self._on_look = on_look
        self._told: dict[str, int] = {}

    async def tick(self) -> float:
        """Look at every consumer."""
        consumers = await self._engine.consumers()
        if consumers:
            now = await self._engine.now()
            for one in consumers:
                self._look_at(one, now)
            if self._on_look is not None:
                lag = max(now - (one.waits_since or now) for one in consumers)
                self._on_look(lag / _SECOND, max(one.behind for one in consumers))
        return _EVERY * self._rng.uniform(0.75, 1.0)

    def _look_at(self, one: Consumer, now: int) -> None:
        wrong = alarm(one, now, after=self._after)
        since = now if one.waits_since is None else one.waits_since
        facts = {
            "consumer": one.name,
            "behind": one.behind,
            "lag_seconds": round((now - since) / _SECOND, 1),
        }
        if wrong is None:
            if self._told.pop(one.name, None) is not None:
                log.info("consumer caught up", extra=facts)
        elif now - self._told.get(one.name, -(1 << 62)) >= _AGAIN * _SECOND:
            self._told[one.name] = now
            log.warning(wrong, extra={**facts, "holder": one.holder or "nobody"})
