"""Chain the audit log: what somebody ordered, and if it is asked for, every transition.

The hot path pays nothing for it: transitions are in the outbox already, and are read from there
by a cursor, as any consumer does.
"""

import secrets

from longshore.contract import Engine
from longshore.core.consumer import Cursor
from longshore.errors import CursorLostError

__all__ = ["CONSUMER", "Chainer"]

CONSUMER = "audit"
_LEASE_US = 15_000_000
_AT_ONCE = 200
_PAUSE_S = 1.0
_ELSEWHERE_S = 3.0
"""Another process reads the outbox for the log."""


class Chainer:
    """Appends to the log. Any number of processes: the engine lets one append at a time."""

    def __init__(self, engine: Engine, *, transitions: bool = False) -> None:
        """Without `transitions` it chains only what was ordered."""
        self._engine = engine
        self._transitions = transitions
        self._holder = f"scheduler-{secrets.token_hex(4)}"
        self._cursor: Cursor | None = None
        self._position = 0
        self._is_first = True

    async def tick(self) -> float:
        """Chain what there is; the seconds until the next look."""
        if self._is_first and not self._transitions:
            # From a time when they were asked for: nothing shall be kept for nobody.
            await self._forget()
        self._is_first = False
        if self._transitions and self._cursor is None:
            self._cursor = await self._take()
        try:
            done = await self._engine.chain(
                limit=_AT_ONCE, cursor=self._cursor, after=self._position
            )
        except CursorLostError:
            self._cursor = None
            return _PAUSE_S
        self._position = done.position
        if done.is_more:
            return 0.0
        return _PAUSE_S if self._cursor or not self._transitions else _ELSEWHERE_S

    async def _take(self) -> Cursor | None:
        cursor = await self._engine.take_cursor(CONSUMER, holder=self._holder, lease=_LEASE_US)
        if cursor is not None:
            self._position = cursor.position
        return cursor

    async def _forget(self) -> None:
        if any(one.name == CONSUMER for one in await self._engine.consumers()):
            await self._engine.delete_consumer(CONSUMER)
