"""How fast jobs come and end, told from how many there were before."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol

__all__ = ["Counts", "Rate", "Rates", "RatesByTenant"]

_WINDOW_US = 10_000_000
_MINUTE_US = 60_000_000
_MOST_SAMPLES = 60
_MOST_TENANTS = 100


class Counts(Protocol):
    """What is told of a queue, by an engine or in its document."""

    @property
    def queue(self) -> str:
        """Its name."""
        ...

    @property
    def ready(self) -> int:
        """Jobs that could be taken."""
        ...

    @property
    def scheduled(self) -> int:
        """Jobs that are to run later."""
        ...

    @property
    def running(self) -> int:
        """Jobs that are claimed."""
        ...

    @property
    def succeeded(self) -> int:
        """Jobs that succeeded."""
        ...

    @property
    def dead(self) -> int:
        """Jobs that are dead."""
        ...

    @property
    def cancelled(self) -> int:
        """Jobs that were cancelled."""
        ...

    @property
    def pruned(self) -> int:
        """Jobs that ended and were deleted."""
        ...


@dataclass(frozen=True, slots=True)
class Rate:
    """Jobs per second; None before there are two looks to compare."""

    submitted: float | None = None
    ended: float | None = None
    trend: Sequence[float] = ()
    """What ended per second between looks, oldest first."""


class _Seen(NamedTuple):
    """What a look found in a queue."""

    live: int = 0
    ended: int = 0
    pruned: int = 0


class _Sums(NamedTuple):
    """What came and ended in a queue since the first look."""

    came: int = 0
    ended: int = 0


@dataclass(frozen=True, slots=True)
class _Sample:
    now: int
    sums: Mapping[str, _Sums]


class Rates:
    """Remembers the last looks.

    What is pruned between two looks is counted by the engine, unless it tells of one tenant.
    What is purged cannot be told from what did not happen: then a rate is too low for a moment,
    and never below zero.
    """

    def __init__(self, *, window: int = _WINDOW_US, most_samples: int = _MOST_SAMPLES) -> None:
        """Rates are over the last `window` microseconds.

        Looks that come faster than so many samples fit into it replace one another.
        """
        self._window = window
        self._apart = window // (most_samples - 1)
        self._samples: deque[_Sample] = deque(maxlen=most_samples)
        self._sums: dict[str, _Sums] = {}
        self._last: dict[str, _Seen] = {}
        """As each queue was when it was last told of."""
        self._unseen: set[str] = set()
        """Those of them that the last look found nothing in."""

    def note(self, now: int, queues: Sequence[Counts]) -> None:
        """Take a look into account."""
        if self._samples and now < self._samples[-1].now:
            # The engine's clock was set back: what was before tells nothing.
            self._samples.clear()
        elif self._samples and now == self._samples[-1].now:
            self._samples.pop()
        # Of a queue that has only been pruned an engine does not tell how much that was.
        seen = {one.queue: found for one in queues if any(found := _seen(one))}
        for queue, found in seen.items():
            came, gone = self._growth(queue, found)
            before = self._sums.get(queue, _Sums())
            self._sums[queue] = _Sums(before.came + came, before.ended + gone)
        self._last |= seen
        self._unseen = self._last.keys() - seen.keys()
        if len(self._samples) > 1:
            last, newest = self._samples[-2], self._samples[-1]
            if newest.now - last.now < self._apart:
                self._samples.pop()
        self._samples.append(_Sample(now, dict(self._sums)))

    def all_together(self) -> Rate:
        """How fast all queues go together, without a trend."""
        found = [self.of(queue) for queue in self._sums]
        if len(self._samples) < 2:
            return Rate()
        return Rate(sum(it.submitted or 0 for it in found), sum(it.ended or 0 for it in found))

    def of(self, queue: str) -> Rate:
        """How fast a queue goes, over the window."""
        if len(self._samples) < 2:
            return Rate()
        newest = self._samples[-1]
        since = next(
            (one for one in self._samples if one.now >= newest.now - self._window),
            newest,
        )
        # Looks may be further apart than the window.
        since = self._samples[-2] if since is newest else since
        submitted, gone = _between(since, newest, queue)
        return Rate(submitted, gone, self._trend(queue))

    def _trend(self, queue: str) -> list[float]:
        return [_between(one, next_one, queue)[1] for one, next_one in pairwise(self._samples)]

    def _growth(self, queue: str, seen: _Seen) -> tuple[int, int]:
        before = self._last.get(queue)
        if before is None:
            return seen.live + seen.ended, seen.ended
        if queue in self._unseen:
            return _growth_unseen(before, seen)
        return _growth(before, seen)


class RatesByTenant:
    """Rates over the last minute, of all tenants together and of single ones.

    A service is asked for them by many, each of whom may see no more than its own jobs.
    """

    def __init__(self) -> None:
        self._of: dict[str | None, Rates] = {}

    def of(self, tenant: str | None) -> Rates:
        """The rates of a tenant's jobs; None: of everyone's."""
        if tenant not in self._of and len(self._of) >= _MOST_TENANTS:
            self._of.clear()
        return self._of.setdefault(tenant, Rates(window=_MINUTE_US, most_samples=13))


def _seen(one: Counts) -> _Seen:
    over = one.succeeded + one.dead + one.cancelled
    return _Seen(one.ready + one.scheduled + one.running, over, one.pruned)


def _growth(before: _Seen, after: _Seen) -> tuple[int, int]:
    """What came and what ended between two looks."""
    if after.pruned < before.pruned:
        # An engine forgets how much it pruned only when nothing is left that ended.
        gone = after.ended + after.pruned
    else:
        gone = max(after.ended + after.pruned - before.ended - before.pruned, 0)
    # May be below zero, for an estimate wavers, and over several looks that evens out.
    return gone + after.live - before.live, gone


def _growth_unseen(before: _Seen, after: _Seen) -> tuple[int, int]:
    """The same when a look between them found nothing: all that is there came since then."""
    if after.pruned < before.pruned:
        before = _Seen()
    pruned = after.pruned - before.pruned
    gone = after.ended + max(pruned - before.ended, 0)
    came = after.live + after.ended + max(pruned - before.ended - before.live, 0)
    return came, gone


def _between(before: _Sample, after: _Sample, queue: str) -> tuple[float, float]:
    seconds = (after.now - before.now) / 1_000_000
    had, has = before.sums.get(queue, _Sums()), after.sums.get(queue, _Sums())
    return max(has.came - had.came, 0) / seconds, (has.ended - had.ended) / seconds
