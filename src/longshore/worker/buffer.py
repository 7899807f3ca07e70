"""Claimed jobs that wait for a slot."""

from collections import deque
from collections.abc import Container, Sequence
from itertools import takewhile

from longshore.core.job import Claim
from longshore.engine import Reference

__all__ = ["Buffer"]


class Buffer:
    """First in, first out, and each batch remembers when it came.

    But what was submitted for a time, and is due, does not wait behind what was to run as soon
    as possible.

    `claims` is read and popped directly by the slots: a method call per job would be the
    dearest part of taking one.
    """

    def __init__(self) -> None:
        self.claims: deque[Claim] = deque()
        self._arrived = 0
        self._batches: deque[tuple[int, float]] = deque()

    def add(self, claims: Sequence[Claim], now: float) -> None:
        """Put a batch behind the others; those at its front that are punctual go before."""
        if claims:
            if self.claims and _is_punctual(claims[0]):
                punctual = list(takewhile(_is_punctual, claims))
                self.claims.extendleft(reversed(punctual))
                self.claims.extend(claims[len(punctual) :])
            else:
                self.claims.extend(claims)
            self._arrived += len(claims)
            self._batches.append((self._arrived, now))

    def take_older(self, than: float) -> list[Claim]:
        """Remove and return what came at or before this instant."""
        oldest_kept = 0
        while self._batches and self._batches[0][1] <= than:
            oldest_kept, _ = self._batches.popleft()
        gone = self._arrived - len(self.claims)
        return [self.claims.popleft() for _ in range(oldest_kept - gone)]

    def take_named(self, references: Container[Reference], now: float) -> list[Claim]:
        """Remove and return these; the others count as having come just now."""
        everything = self.take_all()
        self.add(
            [one for one in everything if (one.handle, one.delivery) not in references], now
        )
        return [one for one in everything if (one.handle, one.delivery) in references]

    def take_all(self) -> list[Claim]:
        """Remove and return everything."""
        taken = list(self.claims)
        self.claims.clear()
        self._batches.clear()
        return taken


def _is_punctual(claim: Claim) -> bool:
    """Whether it was submitted for a later time than its arrival; a retry was not."""
    return claim.delivery == 1 and claim.run_at > claim.created_at
