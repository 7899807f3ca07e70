"""Claimed jobs that wait for a slot."""

from collections import Counter, deque
from collections.abc import Container, Sequence
from itertools import takewhile
from operator import itemgetter

from longshore.core.job import Claim
from longshore.engine import Reference

__all__ = ["Buffer"]


class Buffer:
    """First in, first out, and each batch remembers when it came.

    But what was submitted for a time, and is due, does not wait behind what was to run as soon
    as possible; and jobs of a queue whose tenants take turns do so here too.

    `claims` is read and popped directly by the slots: a method call per job would be the
    dearest part of taking one.
    """

    def __init__(self) -> None:
        self.claims: deque[Claim] = deque()
        self._arrived = 0
        self._batches: deque[tuple[int, float]] = deque()

    def add(self, claims: Sequence[Claim], now: float, by_turns: Sequence[str] = ()) -> None:
        """Put a batch behind the others; those at its front that are punctual go before.

        `by_turns` are queues whose tenants take turns.
        """
        if claims:
            if self.claims and _is_punctual(claims[0]):
                punctual = list(takewhile(_is_punctual, claims))
                self.claims.extendleft(reversed(punctual))
                self.claims.extend(claims[len(punctual) :])
            else:
                self.claims.extend(claims)
            self._arrived += len(claims)
            self._batches.append((self._arrived, now))
            for queue in by_turns:
                self._take_turns(queue)

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

    def _take_turns(self, queue: str) -> None:
        """Let the tenants of a queue go by turns, among the places that are the queue's.

        How much each is served was decided when it was claimed. Here it is who goes first: who
        comes now and then does not wait behind all that was claimed of another.
        """
        waiting = list(self.claims)
        places = [at for at, one in enumerate(waiting) if one.queue == queue]
        turns: Counter[str] = Counter()
        found: list[tuple[int, Claim]] = []
        for at in places:
            one = waiting[at]
            found.append((turns[one.tenant], one))
            turns[one.tenant] += 1
        if len(turns) > 1:
            found.sort(key=itemgetter(0))
            for at, (_, one) in zip(places, found, strict=True):
                waiting[at] = one
            self.claims.clear()
            self.claims.extend(waiting)


def _is_punctual(claim: Claim) -> bool:
    """Whether it was submitted for a later time than its arrival; a retry was not."""
    return claim.delivery == 1 and claim.run_at > claim.created_at
