"""FlakyEngine: a real engine behind a line that can be cut."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Generator
from contextlib import contextmanager
from inspect import iscoroutinefunction
from typing import Any, cast

from longshore.contract import Engine, Session
from longshore.contract.forwarding import ForwardingEngine, ForwardingSession
from longshore.errors import EngineUnavailableError

__all__ = ["FlakyEngine"]

Call = Callable[..., Awaitable[Any]]


class FlakyEngine(ForwardingEngine):
    """An engine whose calls can fail, hang, or lose their answer, when the test says so.

    The sessions it opens share its switches.
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__(cast(Engine, _Line(engine, self._call)))
        self._is_down = False
        self._line = asyncio.Event()
        self._line.set()
        self._lost_answers = 0
        self._lost_of: frozenset[str] = frozenset()
        self.calls: list[str] = []
        """The name of every call that was made, whether or not it arrived."""

    def go_down(self) -> None:
        """From now on every call raises EngineUnavailableError and does nothing."""
        self._is_down = True

    def hang(self) -> None:
        """From now on every call waits, before it does anything, until `come_back`."""
        self._line.clear()

    def come_back(self) -> None:
        """Calls work again, those that hang included."""
        self._is_down = False
        self._lost_answers = 0
        self._line.set()

    @contextmanager
    def outage(self) -> Generator[None]:
        """Down inside the block, back after it."""
        self.go_down()
        try:
            yield
        finally:
            self.come_back()

    def lose_answers(self, count: int = 1, *, of: Collection[str] = ()) -> None:
        """Carry out the next `count` calls, then raise EngineUnavailableError all the same.

        `of` names the methods concerned, such as `exchange`; without it, every method is.
        """
        self._lost_answers = count
        self._lost_of = frozenset(of)

    async def open_session(self, **arguments: Any) -> Session:
        """A session of the real engine, behind the same line."""
        session = await self._inner.open_session(**arguments)
        return ForwardingSession(cast(Session, _Line(session, self._call)))

    async def attach_session(self, token: int) -> Session:
        """The same for one that was opened elsewhere."""
        session = await self._inner.attach_session(token)
        return ForwardingSession(cast(Session, _Line(session, self._call)))

    def _call(self, name: str, method: Call) -> Call:
        async def call(*positional: Any, **named: Any) -> Any:
            self.calls.append(name)
            await self._line.wait()
            if self._is_down:
                raise EngineUnavailableError(f"the line is cut: {name} was not sent")
            answer = await method(*positional, **named)
            if name == "claim_at_wakeup" and answer is not None:
                # It was sent long ago; what it brings comes by the line as it is now.
                await self._line.wait()
                if self._is_down:
                    raise EngineUnavailableError("the line is cut: a claim was not answered")
            if self._lost_answers and (not self._lost_of or name in self._lost_of):
                self._lost_answers -= 1
                raise EngineUnavailableError(f"the line was cut: the answer to {name} is lost")
            return answer

        return call


class _Line:
    """What leads to an engine or a session: each call goes through the switches."""

    def __init__(self, beyond: Engine | Session, wrap: Callable[[str, Call], Call]) -> None:
        self._beyond = beyond
        self._wrap = wrap

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._beyond, name)
        return self._wrap(name, value) if iscoroutinefunction(value) else value
