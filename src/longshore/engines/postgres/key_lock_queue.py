"""Calls that wait for the same keys wait behind each other, so that only one of them asks."""

import asyncio
from collections.abc import AsyncGenerator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

__all__ = ["Turn", "Turns", "acquired"]


@dataclass(slots=True)
class Turn:
    """What those who wait for a set of keys share."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0
    refusal: Exception | None = None
    """What the last of them heard who asked."""


class Turns:
    """One at a time for each set of keys; sets do not wait for each other."""

    def __init__(self) -> None:
        self._turns: dict[frozenset[Hashable], Turn] = {}

    @asynccontextmanager
    async def of(
        self, keys: frozenset[Hashable], until: float, refusal: Exception | None = None
    ) -> AsyncGenerator[Turn]:
        """It is the caller's turn inside the block, or the loop's time is past `until`.

        The refusal is what the first who waits has heard already.
        """
        turn = self._turns.setdefault(keys, Turn(refusal=refusal))
        turn.waiting += 1
        try:
            is_ours = await acquired(turn.lock, until)
            try:
                yield turn
            finally:
                if is_ours:
                    turn.lock.release()
        finally:
            turn.waiting -= 1
            if not turn.waiting:
                del self._turns[keys]


async def acquired(lock: asyncio.Lock | asyncio.Semaphore, until: float) -> bool:
    """Whether the lock is ours before the loop's time is past `until`."""
    try:
        async with asyncio.timeout_at(until):
            await lock.acquire()
    except TimeoutError:
        return False
    return True
