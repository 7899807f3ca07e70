"""Tell when consumers of the outbox fall behind, or are gone: events then fill the store."""

import logging
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from longshore.contract import Records
from longshore.core.consumer import Consumer, is_over
from longshore.records import flags

__all__ = ["Standing", "Watch", "alarm"]

log = logging.getLogger("longshore.outbox")

_AFTER = 300.0
_EVERY = 5.0
_AGAIN = 60.0
_SECOND = 1_000_000


class Store(Records, Protocol):
    """Knows the consumers, the time, and whether progress is left out."""

    async def consumers(self) -> list[Consumer]:
        """Every consumer, by name."""
        ...

    async def now(self) -> int:
        """The engine's clock, microseconds since the epoch."""
        ...


class Standing(NamedTuple):
    """How the slowest consumer stands."""

    lag_seconds: float
    behind: int
    """Batches."""
    is_muted: bool | None
    """Whether progress is left out on that account; None from who does not decide it."""


def alarm(one: Consumer, now: int, *, after: float) -> str | None:
    """What is wrong with a consumer, if anything; `after` is in seconds."""
    if one.gone_at is not None:
        return "consumer gone"
    if one.waits_since is not None and now - one.waits_since > after * _SECOND:
        return "consumer behind"
    return None


class Watch:
    """Logs what is wrong with consumers, again every minute, and when it is over.

    Given the `most` batches that may wait for one, it has progress left out beyond that, until
    half of them are shipped.
    """

    def __init__(
        self,
        engine: Store,
        *,
        after: float = _AFTER,
        most: int | None = None,
        rng: random.Random | None = None,
        on_look: Callable[[Standing], None] | None = None,
    ) -> None:
        """`on_look` hears of every look."""
        self._engine = engine
        self._after = after
        self._most = most
        self._rng = rng or random.Random()
        self.on_look = on_look
        self._told: dict[str, int] = {}

    async def tick(self) -> float:
        """Look at every consumer."""
        consumers = await self._engine.consumers()
        now = await self._engine.now() if consumers else 0
        for one in consumers:
            self._look_at(one, now)
        behind = max((one.behind for one in consumers), default=0)
        is_muted = None if self._most is None else await self._bound(self._most, consumers)
        if self.on_look is not None:
            lag = max((now - (one.waits_since or now) for one in consumers), default=0)
            self.on_look(Standing(lag / _SECOND, behind, is_muted))
        return _EVERY * self._rng.uniform(0.75, 1.0)

    async def _bound(self, most: int, consumers: Sequence[Consumer]) -> bool:
        """Whether progress is left out from now on. All who decide find the same."""
        was_over = await flags.is_muted(self._engine)
        now_over = is_over(consumers, most, was_over=was_over)
        if now_over is not was_over and await flags.mute(self._engine, now_over):
            facts = {"behind": max((one.behind for one in consumers), default=0), "most": most}
            if now_over:
                log.error("outbox over its bound, progress is left out", extra=facts)
            else:
                log.info("outbox within its bound, progress is told again", extra=facts)
        return now_over

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
