"""The sessions that a process speaks for, whose they are, and the requests that only wait."""

import asyncio
from collections import OrderedDict

from longshore.contract import Engine, Session
from longshore.errors import LeaseLostError
from longshore.runtime.clock import SECOND

__all__ = ["Desk", "stopped"]

_MOST_KNOWN = 10_000


class Desk:
    """Knows what sessions were opened with, and nothing of what they hold."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: OrderedDict[int, Session] = OrderedDict()
        self._owners: OrderedDict[int, str] = OrderedDict()
        self._resting: set[asyncio.Future[None]] = set()
        self.is_leaving = False
        """The service takes no more requests, and those that only wait are answered now."""

    @property
    def resting(self) -> int:
        """How many requests only wait: they take no room from those that do something."""
        return len(self._resting)

    async def session(self, token: int) -> Session:
        """The session with this token, or LeaseLostError."""
        session = self._known.get(token)
        if session is None:
            session = await self._engine.attach_session(token)
            self._known[token] = session
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
        return session

    async def check(self, token: int, owner: str) -> None:
        """LeaseLostError unless the session is this one's, as if there were none."""
        known = self._owners.get(token)
        if known is None and (known := await self._engine.owner_of(token)) is not None:
            # It stays whose it is, so whoever was told once need not ask again.
            self._owners[token] = known
            if len(self._owners) > _MOST_KNOWN:
                self._owners.popitem(last=False)
        if known != owner:
            raise LeaseLostError(token)

    def forget(self, token: int) -> None:
        """It is over."""
        self._known.pop(token, None)
        self._owners.pop(token, None)

    async def rest(self, waiting: asyncio.Task[None], most: int | None = None) -> None:
        """Only wait, until that is over, `most` microseconds are, or the service leaves."""
        seconds = None if most is None else most / SECOND
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._resting.add(called)
        try:
            if not self.is_leaving:
                await asyncio.wait(
                    (waiting, called), timeout=seconds, return_when=asyncio.FIRST_COMPLETED
                )
        finally:
            self._resting.discard(called)
            await stopped(waiting)
        if not waiting.cancelled():
            waiting.result()

    def leave(self) -> None:
        """Let every request go that only waits: whoever sent it asks another process."""
        self.is_leaving = True
        for called in self._resting:
            if not called.done():
                called.set_result(None)


async def stopped(waiting: asyncio.Task[None]) -> None:
    """Return when it no longer waits."""
    if not waiting.done():
        waiting.cancel()
        await asyncio.wait((waiting,))
