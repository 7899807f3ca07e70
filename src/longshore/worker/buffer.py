"""Claimed jobs that wait for a slot."""

from collections import Counter, deque
from collections.abc import Container, Iterable, Sequence
from itertools import chain, groupby, repeat
from operator import attrgetter, itemgetter

from longshore.contract import Reference
from longshore.core.job import Claim

__all__ = ["Buffer"]


class Buffer:
    """First in, first out, and it remembers when each came.

    But what was submitted for a time, and is due, does not wait behind what was to run as soon
    as possible and is not more urgent; and jobs of a queue whose tenants take turns do so here
    too.

    `claims` is read and popped directly by the slots: a method call per job would be the
    dearest part of taking one.
    """

    def __init__(self) -> None:
        self.claims: deque[Claim] = deque()
        self._runs: deque[tuple[int, float]] = deque()
        """From the left: so many neighbours came at that instant."""
        self._counted = 0
        """How many these are, with those that the slots have taken since."""

    def add(self, claims: Sequence[Claim], now: float, by_turns: Sequence[str] = ()) -> None:
        """Put a batch behind the others, but what is punctual before those that it outranks.

        `by_turns` are queues whose tenants take turns.
        """
        if not claims:
            return
        self._forget_gone()
        if self.claims and any([one.run_at > one.created_at for one in claims]):
            self._let_pass([one for one in claims if _is_punctual(one)], now)
            claims = [one for one in claims if not _is_punctual(one)]
        if claims:
            self._append(claims, now)
        for queue in by_turns:
            self._take_turns(queue)

    def take_older(self, than: float) -> list[Claim]:
        """Remove and return what came at or before this instant."""
        self._forget_gone()
        if all(when > than for _, when in self._runs):
            return []
        return self._take(when <= than for when in self._instants())

    def take_named(self, references: Container[Reference]) -> list[Claim]:
        """Remove and return these."""
        self._forget_gone()
        return self._take((one.handle, one.delivery) in references for one in self.claims)

    def take_all(self) -> list[Claim]:
        """Remove and return everything."""
        taken = list(self.claims)
        self._put([])
        return taken

    def _append(self, claims: Sequence[Claim], now: float) -> None:
        self.claims.extend(claims)
        self._runs.append((len(claims), now))
        self._counted += len(claims)

    def _forget_gone(self) -> None:
        """The slots take from the left, and tell nobody."""
        gone = self._counted - len(self.claims)
        if gone:
            self._counted -= gone
            self._cut_runs(gone)

    def _cut_runs(self, count: int) -> list[tuple[int, float]]:
        """Remove and return what the runs say of so many claims from the left."""
        cut: list[tuple[int, float]] = []
        while count:
            length, when = self._runs.popleft()
            if length > count:
                self._runs.appendleft((length - count, when))
                length = count
            cut.append((length, when))
            count -= length
        return cut

    def _instants(self) -> Iterable[float]:
        """When each of the claims came, in their order."""
        return chain.from_iterable(repeat(when, count) for count, when in self._runs)

    def _put(self, pairs: Sequence[tuple[Claim, float]]) -> None:
        """Have these, and nothing else. The deque is the same for ever."""
        self.claims.clear()
        self.claims.extend(claim for claim, _ in pairs)
        self._runs.clear()
        for when, run in groupby(pairs, itemgetter(1)):
            self._runs.append((sum(1 for _ in run), when))
        self._counted = len(pairs)

    def _take(self, marks: Iterable[bool]) -> list[Claim]:
        """Remove and return the claims that are marked, of all in their order."""
        rows = list(zip(marks, self.claims, self._instants(), strict=True))
        taken = [claim for is_marked, claim, _ in rows if is_marked]
        if taken:
            self._put([(claim, when) for is_marked, claim, when in rows if not is_marked])
        return taken

    def _let_pass(self, punctual: Sequence[Claim], now: float) -> None:
        """Put these before the first that they outrank, those of one priority together."""
        for priority, group in groupby(punctual, attrgetter("priority")):
            passing = list(group)
            at = self._place_of(priority)
            self.claims.rotate(-at)
            self.claims.extendleft(reversed(passing))
            self.claims.rotate(at)
            self._counted += len(passing)
            before = self._cut_runs(at)
            self._runs.extendleft([(len(passing), now), *reversed(before)])

    def _place_of(self, priority: int) -> int:
        """How many stay before punctual ones of this priority that come now."""
        for at, one in enumerate(self.claims):
            if one.priority >= priority + _is_punctual(one):
                return at
        return len(self.claims)

    def _take_turns(self, queue: str) -> None:
        """Let the tenants of a queue go by turns, among the places that are the queue's.

        How much each is served was decided when it was claimed. Here it is who goes first: who
        comes now and then does not wait behind all that was claimed of another.
        """
        turns: Counter[str] = Counter()
        places: list[int] = []
        found: list[tuple[int, int]] = []
        for at, one in enumerate(self.claims):
            if one.queue == queue:
                places.append(at)
                found.append((turns[one.tenant], at))
                turns[one.tenant] += 1
        if len(turns) > 1:
            pairs = list(zip(self.claims, self._instants(), strict=True))
            waiting = list(pairs)
            for place, (_, at) in zip(places, sorted(found), strict=True):
                waiting[place] = pairs[at]
            self._put(waiting)


def _is_punctual(claim: Claim) -> bool:
    """Whether it was submitted for a later time than its arrival; a retry was not."""
    return claim.delivery == 1 and claim.run_at > claim.created_at
