"""An engine whose answers are written into a ledger as they arrive.

The queue's word is taken down by the worker that heard it: what it was given, and what became
of each settlement. So a checker can tell what the queue accepted, and in which order.
"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from longshore.contract import (
    Engine,
    Exchanged,
    Reference,
    Renewed,
    Session,
)
from longshore.contract.forwarding import ForwardingEngine, ForwardingSession
from longshore.core import ids
from longshore.core.job import Settlement
from longshore.errors import LeaseLostError
from longshore_lab.clock import DozingClock
from longshore_lab.ledger import Book
from longshore_lab.records import Claimed, Renewal, Settled

__all__ = ["Talk", "is_talking", "watched"]


_LATE = 0.1


class Talk:
    """A byte in a file that says whether a worker waits for the answer of an exchange.

    One that is stopped while it waits gives up on the answer when it goes on, asks again, hears
    that its lease is gone, and never sends the late results that the fence is there for.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def set(self, is_on: bool) -> None:
        """Said by the worker itself."""
        os.pwrite(self._file, b"1" if is_on else b"0", 0)


def is_talking(path: Path) -> bool:
    """The worker that says so in this file waits for an answer."""
    return path.exists() and path.read_bytes() == b"1"


def watched(
    engine: Engine,
    ledger: Book,
    clock: DozingClock | None = None,
    talk: Talk | None = None,
) -> Engine:
    """The same engine; sessions opened through it write down what they are told.

    After the clock has dozed, a renewal is held back for a moment: the worker's late results
    go out first, and the fence has to refuse them.
    """
    return _WatchedEngine(engine, ledger, clock or DozingClock(), talk)


class _WatchedEngine(ForwardingEngine):
    def __init__(
        self, engine: Engine, ledger: Book, clock: DozingClock, talk: Talk | None
    ) -> None:
        super().__init__(engine)
        self._ledger = ledger
        self._clock = clock
        self._talk = talk

    async def open_session(self, **arguments: Any) -> Session:
        session = await self._inner.open_session(**arguments)
        return _WatchedSession(session, self._ledger, self._clock, self._talk)


class _WatchedSession(ForwardingSession):
    def __init__(
        self, session: Session, ledger: Book, clock: DozingClock, talk: Talk | None
    ) -> None:
        super().__init__(session)
        self._talk = talk
        self._ledger = ledger
        self._clock = clock
        self._number = 0
        self._called_at = 0
        self._sent = 0
        self._jobs: dict[Reference, str] = {}

    async def exchange(
        self, number: int, *, settlements: Sequence[Settlement] = (), **rest: Any
    ) -> Exchanged:
        if number != self._number:
            self._begin(number)
        self._sent += 1
        try:
            answer = await self._exchange(number, settlements=settlements, **rest)
        except LeaseLostError:
            refused = {(settlement.handle, settlement.delivery) for settlement in settlements}
            self._write_settled(settlements, refused)
            raise
        self._write_settled(settlements, set(answer.stale))
        self._write_claimed(answer)
        return answer

    async def claim_at_wakeup(self, number: int, **rest: Any) -> Exchanged | None:
        self._begin(number)
        answer = await super().claim_at_wakeup(number, **rest)
        if answer is None:
            self._number = 0
        else:
            self._called_at += int(answer.waited * 1e6)
            self._write_claimed(answer)
        return answer

    async def _exchange(self, number: int, **rest: Any) -> Exchanged:
        if self._talk is None:
            return await self._inner.exchange(number, **rest)
        self._talk.set(True)
        try:
            return await self._inner.exchange(number, **rest)
        finally:
            self._talk.set(False)

    async def renew(self, **arguments: Any) -> Renewed:
        if self._clock.has_just_woken:
            await asyncio.sleep(_LATE)
        called_at, held = self._ledger.now(), arguments.get("held") or ()
        try:
            answer = await self._inner.renew(**arguments)
        except BaseException:
            self._write_renewed(called_at, held, None)
            raise
        self._write_renewed(called_at, held, answer)
        return answer

    def _begin(self, number: int) -> None:
        self._number, self._called_at, self._sent = number, self._ledger.now(), 0

    def _write_renewed(
        self, called_at: int, held: Sequence[Reference], answer: Renewed | None
    ) -> None:
        at, token = self._ledger.now(), self._inner.token
        if answer is None:
            self._ledger.write(Renewal(at, called_at, token))
            return
        gone = set(answer.lost)
        self._ledger.write(
            Renewal(
                at,
                called_at,
                token,
                tuple(sorted(self._named(one) for one in held if one not in gone)),
                tuple(sorted(self._named(one) for one in gone)),
                answer.now,
                answer.expires_at,
            )
        )

    def _named(self, reference: Reference) -> tuple[str, int]:
        return self._jobs.get(reference, "unknown"), reference[1]

    def _write_settled(
        self, settlements: Sequence[Settlement], refused: set[Reference]
    ) -> None:
        at = self._ledger.now()
        self._ledger.write(
            *(
                Settled(
                    at,
                    self._called_at,
                    self._jobs.get(name := (settlement.handle, settlement.delivery), "unknown"),
                    settlement.delivery,
                    settlement.verb,
                    name not in refused,
                    self._sent,
                )
                for settlement in settlements
            )
        )

    def _write_claimed(self, answer: Exchanged) -> None:
        at = self._ledger.now()
        claimed = [(claim, ids.text(claim.id)) for claim in answer.claims]
        self._ledger.write(
            *(Claimed(at, self._called_at, job, claim.delivery) for claim, job in claimed)
        )
        for claim, job in claimed:
            self._jobs[claim.handle, claim.delivery] = job
