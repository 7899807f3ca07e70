"""An engine whose answers are written into a ledger as they arrive.

The queue's word is taken down by the worker that heard it: what it was given, and what became
of each settlement. So a checker can tell what the queue accepted, and in which order.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from longshore.core import ids
from longshore.core.job import Settlement
from longshore.engine import Engine, Exchanged, Reference, Renewed, Session
from longshore.errors import LeaseLostError
from longshore_lab.clock import DozingClock
from longshore_lab.ledger import Ledger, now
from longshore_lab.records import Claimed, Settled

__all__ = ["watched"]


_LATE = 0.1


def watched(engine: Engine, ledger: Ledger, clock: DozingClock | None = None) -> Engine:
    """The same engine; sessions opened through it write down what they are told.

    After the clock has dozed, a renewal is held back for a moment: the worker's late results
    go out first, and the fence has to refuse them.
    """
    return cast(Engine, _WatchedEngine(engine, ledger, clock or DozingClock()))


class _WatchedEngine:
    def __init__(self, engine: Engine, ledger: Ledger, clock: DozingClock) -> None:
        self._engine = engine
        self._ledger = ledger
        self._clock = clock

    async def open_session(self, **arguments: Any) -> Session:
        session = await self._engine.open_session(**arguments)
        return cast(Session, _WatchedSession(session, self._ledger, self._clock))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


class _WatchedSession:
    def __init__(self, session: Session, ledger: Ledger, clock: DozingClock) -> None:
        self._session = session
        self._ledger = ledger
        self._clock = clock
        self._number = 0
        self._called_at = 0
        self._jobs: dict[Reference, str] = {}

    async def exchange(
        self, number: int, *, settlements: Sequence[Settlement] = (), **rest: Any
    ) -> Exchanged:
        if number != self._number:
            self._number, self._called_at = number, now()
        try:
            answer = await self._session.exchange(number, settlements=settlements, **rest)
        except LeaseLostError:
            refused = {(settlement.handle, settlement.delivery) for settlement in settlements}
            self._write_settled(settlements, refused)
            raise
        self._write_settled(settlements, set(answer.stale))
        self._write_claimed(answer)
        return answer

    async def renew(self, **arguments: Any) -> Renewed:
        if self._clock.has_just_woken:
            await asyncio.sleep(_LATE)
        return await self._session.renew(**arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def _write_settled(
        self, settlements: Sequence[Settlement], refused: set[Reference]
    ) -> None:
        at = now()
        self._ledger.write(
            *(
                Settled(
                    at,
                    self._called_at,
                    self._jobs.get(name := (settlement.handle, settlement.delivery), "unknown"),
                    settlement.delivery,
                    settlement.verb,
                    name not in refused,
                )
                for settlement in settlements
            )
        )

    def _write_claimed(self, answer: Exchanged) -> None:
        at = now()
        claimed = [(claim, ids.text(claim.id)) for claim in answer.claims]
        self._ledger.write(
            *(Claimed(at, self._called_at, job, claim.delivery) for claim, job in claimed)
        )
        for claim, job in claimed:
            self._jobs[claim.handle, claim.delivery] = job
