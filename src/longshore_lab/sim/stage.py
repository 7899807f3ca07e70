"""What the actors of a simulation stand on: its time, its books, its world, its line."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextvars import Context
from dataclasses import dataclass
from inspect import iscoroutinefunction
from random import Random
from types import MethodType
from typing import Any, cast

from longshore.contract import Engine, Exchanged, Renewed, Session
from longshore.errors import EngineUnavailableError, ExchangeOrderError, LongshoreError
from longshore_lab.effects import Cell
from longshore_lab.records import Entry, Fault, FaultKind, Record
from longshore_lab.sim.loop import SimLoop

__all__ = ["Blows", "Chronicle", "Faults", "Line", "SimBook", "SimClock", "SimWorld"]

_BORN = 1_000.0
_SECOND = 1_000_000
_WAITS = frozenset({"wait"})
_REPEATABLE = frozenset(
    {"exchange", "renew", "submit", "fire", "end_session", "promote", "close"}
)
_HARMLESS_LATE = frozenset({"exchange", "renew", "submit", "change"})
"""Calls that do no harm, or are refused, when they come again long after their answer."""
_LATEST = (0.1, 1.0, 3.0)
"""Leases that a late duplicate takes, at the most."""
_AFTERWARDS = 1.0
"""Seconds in which a message that was held up may still have its consequences."""


class SimClock:
    """The loop's time. Every actor's wall clock goes wrong in its own way."""

    def __init__(self, loop: SimLoop, *, begins: int, skew: int = 0) -> None:
        """`begins` is the moment at which the world does, in microseconds since the epoch."""
        self._loop = loop
        self._ahead = begins + skew
        self._dozed = 0.0

    def now(self) -> int:
        """Microseconds since the epoch."""
        return self._ahead + int(self._loop.time() * _SECOND)

    def step(self, microseconds: int) -> None:
        """Set the wall clock forward or back, as an administrator would."""
        self._ahead += microseconds

    def doze(self, seconds: float) -> None:
        """Hide so much time, like the clock of a virtual machine that was paused."""
        self._dozed += seconds

    def monotonic(self) -> float:
        """Seconds that only ever grow."""
        return _BORN + self._loop.time() - self._dozed


class Chronicle:
    """All books, in the order in which they were written."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.entries: list[Entry] = []
        self.seen: Counter[str] = Counter()
        """What happened that a simulation has to meet sometimes."""
        self.renewals: list[tuple[int, Renewed]] = []
        """By token, in the order in which they were carried out, whether heard of or not."""

    def now(self) -> int:
        """Microseconds since the beginning of this world."""
        return int(self._loop.time() * _SECOND) + 1

    def book(self, actor: str) -> "SimBook":
        """The book of one actor."""
        return SimBook(self, actor)


class SimBook:
    """What one actor writes down."""

    def __init__(self, chronicle: Chronicle, actor: str) -> None:
        self._chronicle = chronicle
        self.actor = actor

    def now(self) -> int:
        """Microseconds since the beginning of this world."""
        return self._chronicle.now()

    def write(self, *records: Record) -> None:
        """Append the records."""
        self._chronicle.entries += [Entry(self.actor, record) for record in records]


class Blows:
    """What befalls one actor for a while. Several may befall it at once."""

    def __init__(self, book: SimBook, target: str) -> None:
        self._book = book
        self._target = target
        self._lasting = 0

    def begin(self) -> None:
        """From now on whatever it holds may be lost."""
        self._lasting += 1
        self._write(FaultKind.STOP)

    def end(self) -> None:
        """One of them is over."""
        self._lasting -= 1
        self._write(FaultKind.RESUME)
        if self._lasting:
            # A reader takes the first end for that of all, so the others begin anew.
            self._write(FaultKind.STOP)

    def _write(self, kind: FaultKind) -> None:
        self._book.write(Fault(self._book.now(), self._target, kind))


class SimWorld:
    """The outside world."""

    def __init__(self) -> None:
        self._asked: Counter[int] = Counter()
        self._applied: Counter[int] = Counter()

    def apply_once(self, seq: int) -> bool:
        """Do it unless it was done before; whether this was the time it was done."""
        self._asked[seq] += 1
        is_first = not self._applied[seq]
        self._applied[seq] += is_first
        return is_first

    def apply(self, seq: int) -> bool:
        """Do it, again if need be; whether this was the first time."""
        self._asked[seq] += 1
        self._applied[seq] += 1
        return self._applied[seq] == 1

    def cell(self, seq: int) -> Cell:
        """What happened to the order so far."""
        return Cell(self._asked[seq], self._applied[seq])


@dataclass(slots=True)
class Faults:
    """How likely it is that a line does each of its tricks; drawn anew for every world."""

    lease: float
    """Seconds, to measure delays by."""
    fails: float = 0.0
    """The call never arrives."""
    loses: float = 0.0
    """It is carried out, and the answer gets lost."""
    doubles: float = 0.0
    """It arrives twice."""
    late: float = 0.0
    """It arrives once more after it was answered, and maybe after later calls."""
    holds: float = 0.0
    """A message is held up, for a lease at the most."""
    longest: float = 0.01
    """Seconds that any other message takes, at the most."""
    in_a_row: int = 3
    """So many calls of one actor may go wrong one after the other."""

    @classmethod
    def drawn(cls, rng: Random, *, lease: float) -> "Faults":
        """Some of the tricks, each often or seldom."""

        def some() -> float:
            return rng.choice((0.02, 0.1, 0.25)) if rng.random() < 0.5 else 0.0

        return cls(
            lease,
            some(),
            some(),
            some(),
            some(),
            holds=rng.choice((0.0, 0.0, 0.001, 0.01)),
            longest=rng.choice((0.001, 0.02, lease / 20)),
        )

    def end(self) -> None:
        """From now on the line is good; what is under way arrives when it does."""
        self.fails = self.loses = self.doubles = self.late = self.holds = 0.0
        self.longest = 0.002


@dataclass(frozen=True, slots=True)
class _Call:
    """What travels."""

    name: str
    method: Callable[..., Awaitable[Any]]
    args: tuple[Any, ...]
    named: dict[str, Any]


class Line:
    """The way from one actor to the engine and back."""

    def __init__(
        self,
        engine: Engine,
        faults: Faults,
        *,
        chronicle: Chronicle,
        blows: Blows,
        rng: Random,
    ) -> None:
        self._engine = engine
        self._faults = faults
        self._seen = chronicle.seen
        self._renewals = chronicle.renewals
        self._rng = rng
        self._bad = 0
        self._under_way: set[asyncio.Task[None]] = set()
        self.blows = blows
        self.is_cut = False
        """Nothing arrives, and nothing comes back."""

    @property
    def engine(self) -> Engine:
        """The engine as it looks from this end."""
        return cast(Engine, _Far(self._engine, self.call, self))

    async def call(
        self, name: str, method: Callable[..., Awaitable[Any]], *args: Any, **named: Any
    ) -> Any:
        """Carry a call there, and its answer back."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        # Out of the caller's hands: what was sent may arrive after its death.
        carrying = self._carry(_Call(name, method, args, named), answer)
        self._under_way.add(task := loop.create_task(carrying, context=Context()))
        task.add_done_callback(self._under_way.discard)
        return await answer

    async def _carry(self, call: _Call, answer: asyncio.Future[Any]) -> None:
        await self._travel()
        trick = self._trick(call.name)
        try:
            result = await self._do(call, trick)
        except Exception as error:
            await self._travel()
            if not answer.done():
                answer.set_exception(error)
            return
        await self._travel()
        if not answer.done():
            answer.set_result(result)
        if trick == "late" and call.name in _HARMLESS_LATE:
            await self._come_again(call)

    async def _do(self, call: _Call, trick: str | None) -> Any:
        if trick == "fails":
            raise EngineUnavailableError(f"{call.name} was not sent")
        result = await self._carry_out(call)
        if trick == "doubles" and call.name in _REPEATABLE:
            await self._travel()
            result = await self._carry_out(call)
        if trick == "loses":
            self._seen["answer with claims lost"] += _has_claims(result)
            raise EngineUnavailableError(f"the answer to {call.name} is lost")
        return result

    async def _come_again(self, call: _Call) -> None:
        """Carry out what was answered long ago; nobody waits for this answer."""
        rng = self._rng
        await self._arrive(rng.random() * rng.choice(_LATEST) * self._faults.lease)
        self._seen["late duplicate carried out"] += 1
        try:
            await self._carry_out(call)
        except ExchangeOrderError:
            self._seen["old exchange refused"] += 1
        except LongshoreError:
            self._seen[f"late {call.name} refused"] += 1

    async def _carry_out(self, call: _Call) -> Any:
        result = await call.method(*call.args, **call.named)
        if isinstance(result, Renewed):
            session = cast(Session, cast(MethodType, call.method).__self__)
            self._renewals.append((session.token, result))
        return result

    async def _travel(self) -> None:
        faults, rng = self._faults, self._rng
        if not faults.holds or rng.random() >= faults.holds:
            await self._arrive(rng.random() * faults.longest)
            return
        self._seen["message held up"] += 1
        self.blows.begin()
        await self._arrive(rng.random() * faults.lease)
        asyncio.get_running_loop().call_later(_AFTERWARDS, self.blows.end, context=Context())

    async def _arrive(self, seconds: float) -> None:
        while seconds:
            await asyncio.sleep(seconds)
            seconds = 0.05 if self.is_cut else 0.0

    def _trick(self, name: str) -> str | None:
        if name in _WAITS or self._bad >= self._faults.in_a_row:
            self._bad = 0
            return None
        drawn = self._rng.random()
        for trick in ("fails", "loses", "doubles", "late"):
            drawn -= getattr(self._faults, trick)
            if drawn < 0:
                self._bad += trick in ("fails", "loses")
                self._seen[f"{name} {trick}"] += 1
                return trick
        self._bad = 0
        return None


def _has_claims(result: Any) -> bool:
    return isinstance(result, Exchanged) and bool(result.claims)


class _Far:
    """An engine or a session at the other end of a line."""

    def __init__(self, near: Any, call: Callable[..., Awaitable[Any]], line: Line) -> None:
        self._near = near
        self._call = call
        self._line = line

    async def open_session(self, **arguments: Any) -> Session:
        session = await self._call("open_session", self._near.open_session, **arguments)
        return cast(Session, _Far(session, self._call, self._line))

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._near, name)
        if not iscoroutinefunction(value):
            return value

        async def far(*args: Any, **named: Any) -> Any:
            return await self._call(name, value, *args, **named)

        vars(self)[name] = far
        return far
