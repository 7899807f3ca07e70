"""Which of a session's jobs end, or have ended, in transactions of their handlers."""

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import msgspec

from longshore.contract import Reference
from longshore.core.job import Settlement

__all__ = ["Completions", "Landed"]


class Landed(msgspec.Struct, frozen=True, gc=False):
    """A completion that was committed, as its entry in the journal tells of it."""

    handle: int
    delivery: int
    entry: int
    started_at: int
    finished_at: int


class Completions:
    """Outlives the session's book, which is read again whenever an answer was lost."""

    def __init__(self) -> None:
        self.under_way: dict[Reference, asyncio.Future[None]] = {}
        """Being committed; the book does not know yet whether they have ended."""
        self.ended: set[Reference] = set()
        """Ended; whatever settlement the worker still sends for them changes nothing."""
        self.landed: list[Landed] = []
        """Ended, and not yet in the book."""
        self.is_adrift = False
        """Whether a commit was made could not be learned, so nothing may be settled."""

    def __contains__(self, reference: Reference) -> bool:
        return reference in self.under_way or reference in self.ended

    @contextmanager
    def completing(self, reference: Reference) -> Generator[None]:
        """Nobody settles the job inside the block."""
        over = self.under_way[reference] = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            del self.under_way[reference]
            over.set_result(None)

    def land(self, one: Landed) -> None:
        """A completion is durable."""
        self.ended.add((one.handle, one.delivery))
        self.landed.append(one)

    def concern(self, settlements: Sequence[Settlement]) -> bool:
        """Whether one of these jobs is being completed right now."""
        return bool(self.under_way and self._of(settlements))

    async def over(self, settlements: Sequence[Settlement]) -> None:
        """Return when none of these jobs is being completed."""
        while self.under_way and (waiters := self._of(settlements)):
            await asyncio.wait(waiters)

    def _of(self, settlements: Sequence[Settlement]) -> list[asyncio.Future[None]]:
        found = (self.under_way.get((one.handle, one.delivery)) for one in settlements)
        return [waiter for waiter in found if waiter is not None]
