"""An engine whose answers are written into a ledger as they arrive.

The queue's word is taken down by the worker that heard it: what it was given, and what became
of each settlement. So a checker can tell what the queue accepted, and in which order.
"""

from collections.abc import Sequence
from typing import Any, cast

from longshore.core import ids
from longshore.core.job import Settlement
from longshore.engine import Engine, Exchanged, Reference, Session
from longshore.errors import LeaseLostError
from longshore_lab.ledger import Ledger, now
from longshore_lab.records import Claimed, Settled

__all__ = ["watched"]


def watched(engine: Engine, ledger: Ledger) -> Engine:
    """The same engine; sessions opened through it write down what they are told."""
    return cast(Engine, _WatchedEngine(engine, ledger))


class _WatchedEngine:
    def __init__(self, engine: Engine, ledger: Ledger) -> None:
        self._engine = engine
        self._ledger = ledger

    async def open_session(self, **arguments: Any) -> Session:
        session = await self._engine.open_session(**arguments)
        return cast(Session, _WatchedSession(session, self._ledger))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


class _WatchedSession:
    def __init__(self, session: Session, ledger: Ledger) -> None:
        self._session = session
        self._ledger = ledger
        self._jobs: dict[Reference, str] = {}

    async def exchange(
        self, number: int, *, settlements: Sequence[Settlement] = (), **rest: Any
    ) -> Exchanged:
        called_at = now()
        try:
            answer = await self._session.exchange(number, settlements=settlements, **rest)
        except LeaseLostError:
            refused = {(settlement.handle, settlement.delivery) for settlement in settlements}
            self._write_settled(settlements, refused, called_at)
            raise
        self._write_settled(settlements, set(answer.stale), called_at)
        self._write_claimed(answer)
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def _write_settled(
        self, settlements: Sequence[Settlement], refused: set[Reference], called_at: int
    ) -> None:
        at = now()
        self._ledger.write(
            *(
                Settled(
                    at,
                    called_at,
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
        self._ledger.write(*(Claimed(at, job, claim.delivery) for claim, job in claimed))
        for claim, job in claimed:
            self._jobs[claim.handle, claim.delivery] = job
