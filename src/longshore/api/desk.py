"""The sessions that a process speaks for, and the requests that only wait."""

from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager

from longshore.engine import Engine, Session

__all__ = ["Desk"]

_MOST_KNOWN = 10_000


class Desk:
    """Knows what sessions were opened with, and nothing of what they hold."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: OrderedDict[int, Session] = OrderedDict()
        self.resting = 0
        """Requests that wait for work: they take no room from those that do something."""

    async def session(self, token: int) -> Session:
        """The session with this token, or LeaseLostError."""
        session = self._known.get(token)
        if session is None:
            session = await self._engine.attach_session(token)
            self._known[token] = session
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
        return session

    def forget(self, token: int) -> None:
        """It is over."""
        self._known.pop(token, None)

    @contextmanager
    def rest(self) -> Generator[None]:
        """Inside the block a request only waits."""
        self.resting += 1
        try:
            yield
        finally:
            self.resting -= 1
