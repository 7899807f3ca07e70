"""How much a worker asks of queues whose limits hold jobs back.

What is claimed of a queue of which only so many may run or start, and waits here for a room, is
kept from workers that have one. As long as nothing is held back nobody is kept from anything.
Once it is, exchanges take turns. One asks all queues, for as many as there are rooms. The next
asks only those without a limit, if these have jobs, for work ahead too.
"""

from collections.abc import Sequence
from typing import Protocol

from longshore.core.job import Claim
from longshore.core.responses import Exchanged, Share
from longshore.runtime.clock import SECOND
from longshore.worker.appetite import Request
from longshore.worker.lease import NEVER

__all__ = ["Neighbours", "Restraint"]

_TIGHT = 1.0
"""Seconds for which a limit that held jobs back is taken to do so, unless an answer tells."""


class Neighbours(Protocol):
    """What a worker's standing tells of other workers."""

    shares: Sequence[Share]


class Restraint:
    """Knows which queues have limits, and whether these hold jobs back."""

    def __init__(self, neighbours: Neighbours, queues: tuple[str, ...]) -> None:
        self._neighbours = neighbours
        self._queues = queues
        self._shares: Sequence[Share] = ()
        self._limited: frozenset[str] = frozenset()
        self._counted: frozenset[str] = frozenset()
        """Those of them that have no rate."""
        self._tight_until = self._look_at = 0.0
        self._is_turn_of_others = False
        """There are jobs without a limit, and what was asked last were all queues."""

    def request(self, asked: Request, spare: int, now: float) -> Request:
        """What to ask instead, with so many rooms for which no claim waits."""
        if now >= self._tight_until or not asked.want:
            return asked
        self._learn()
        names = asked.queues or self._queues
        others = tuple(name for name in names if name not in self._limited)
        if len(others) == len(names):
            return asked
        if spare > 0 and not (others and self._is_turn_of_others):
            return asked._replace(want=min(asked.want, spare))
        return asked._replace(want=asked.want if others else 0, queues=others, is_partial=True)

    def received(
        self, asked: Request, answer: Exchanged, spare: int, now: float
    ) -> list[Claim]:
        """Of the answer's claims those to give back: they would wait while others could not.

        None that took a token of a rate: whoever takes it next would take another.
        """
        self._learn()
        limited = self._limited
        self._is_turn_of_others = False
        if not asked.want or limited.isdisjoint(asked.queues or self._queues):
            return []
        if answer.look_in is None:
            self._tight_until = 0.0
            return []
        self._tight_until, self._look_at = now + _TIGHT, now + answer.look_in / SECOND
        self._is_turn_of_others = any(one.queue not in limited for one in answer.claims)
        return [one for one in answer.claims if one.queue in self._counted][max(spare, 0) :]

    def due_in(self, spare: int, now: float) -> float:
        """Seconds until it pays to ask those again that were left out; NEVER if it cannot."""
        is_due = spare > 0 and now < self._tight_until
        return max(self._look_at - now, 0.0) if is_due else NEVER

    def _learn(self) -> None:
        """Note which queues have limits, if the last renewal told anything new."""
        shares = self._neighbours.shares
        if shares is not self._shares:
            self._shares = shares
            paced = frozenset(one.queue for one in shares if one.rate is not None)
            counted = frozenset(one.queue for one in shares if one.max_running is not None)
            self._limited, self._counted = paced | counted, counted - paced
