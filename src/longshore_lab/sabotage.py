"""Faults planted on purpose, to show that the checkers would notice them.

A plant changes the processes of one trial and nothing else: the product has no switch for any
of this. Each takes away one thing that a promise stands on.
"""

import sys
from collections.abc import Sequence
from typing import Any, TypeVar, cast

import msgspec

from longshore.contract import Engine, Exchanged, Renewed, Session
from longshore.contract.forwarding import ForwardingEngine, ForwardingSession
from longshore.core.job import NewJob, Settlement, Submitted
from longshore.engines import open_store
from longshore.errors import LeaseLostError
from longshore.runtime import sql_loader
from longshore_lab import misfire

__all__ = ["PLANTS", "Forgetful", "SabotageError", "open_planted"]

T = TypeVar("T")

PLANTS = {
    "fence": "a worker that lost its lease can still settle",
    "loss": "one submission in fifty is answered, and never stored",
    "effects": "handlers act without telling the world which order it is for",
}
"""What can be planted, and what it means."""

_FORGET_EVERY = 50
_FENCES = {
    "session_get": (" and closed_at is null and expires_at > :now", ""),
    "settle_succeeded": (
        "h.token = ? and h.seq = s.column1 and h.delivery = s.column2",
        "? is not null and h.seq = s.column1",
    ),
    "is_held": (
        " from longshore_held\n"
        " where token = :token and seq = :handle and delivery = :delivery",
        " where :token > 0 and :handle > 0 and :delivery > 0",
    ),
    "let_go": (
        " where token = :token and",
        " where (token = :token or seq in (select seq from longshore_finished)) and",
    ),
}
"""The conditions that refuse a stale session, by statement, and what takes their place."""


class SabotageError(Exception):
    """The product has changed, and the plant no longer fits."""


def open_planted(url: str, plant: str | None) -> Engine:
    """The engine, with the fault planted in it if it is one that engines can have."""
    if plant == "fence" and not url.startswith("sqlite"):
        return cast(Engine, _Credulous(_open(url)))
    if plant == "fence":
        _tear_down_the_fence()
        return cast(Engine, _Unfenced(_open(url)))
    if plant == "loss":
        return cast(Engine, Forgetful(_open(url)))
    if plant in misfire.PLANTS:
        return misfire.planted(_open(url), plant)
    return _open(url)


def _open(url: str) -> Engine:
    """The engine, or a service in front of one, through which a producer submits."""
    return cast("Engine", open_store(url))


def _tear_down_the_fence() -> None:
    """Change the engine's statements on their way from the file into the program."""
    if "longshore.engines.sqlite" in sys.modules:
        raise SabotageError("the statements are already loaded")
    load = sql_loader.load

    def unfenced(into: type[T], package: str, suffix: str) -> T:
        loaded = load(into, package, suffix)
        for name, (condition, instead) in _FENCES.items():
            statement: str = getattr(loaded, name)
            if condition not in statement:
                raise SabotageError(f"the fence of the statement {name} is not where it was")
            object.__setattr__(loaded, name, statement.replace(condition, instead))
        return loaded

    sql_loader.load = unfenced


class _Unfenced(ForwardingEngine):
    async def open_session(self, **arguments: Any) -> Session:
        return _Carefree(await self._inner.open_session(**arguments))


class _Carefree(ForwardingSession):
    """A session that never hears that something is no longer its own."""

    async def renew(self, **arguments: Any) -> Renewed:
        answer: Renewed = await self._inner.renew(**arguments)
        return msgspec.structs.replace(answer, lost=[])


class _Credulous(ForwardingEngine):
    """An engine whose sessions are told yes, whether or not their lease is over."""

    async def open_session(self, **arguments: Any) -> Session:
        session = await self._inner.open_session(**arguments)
        return _Flattered(session, self._inner)


class _Flattered(_Carefree):
    def __init__(self, session: Session, engine: Engine) -> None:
        super().__init__(session)
        self._engine = engine

    async def exchange(
        self, number: int, *, settlements: Sequence[Settlement] = (), **rest: Any
    ) -> Exchanged:
        try:
            answer = await self._inner.exchange(number, settlements=settlements, **rest)
        except LeaseLostError:
            if not settlements:
                raise
            return Exchanged(now=await self._engine.now(), claims=[])
        return msgspec.structs.replace(answer, stale=[])


class Forgetful(ForwardingEngine):
    """A queue that says yes first and thinks later."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._calls = 0

    async def submit(
        self,
        jobs: Sequence[NewJob],
        *,
        independent: bool = False,
        max_wait: float | None = None,
    ) -> list[Submitted]:
        """Answer for the jobs, and now and then do no more than that."""
        self._calls += 1
        if self._calls % _FORGET_EVERY == 0:
            return [Submitted(job.id) for job in jobs]
        return await self._inner.submit(jobs, independent=independent, max_wait=max_wait)
