"""How fast jobs come and end, told from how many there were before."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from longshore.engine import QueueCounts

__all__ = ["Rate", "Rates", "ended"]

_WINDOW_US = 10_000_000
_MOST_SAMPLES = 60


@dataclass(frozen=True, slots=True)
class Rate:
    """Jobs per second; None before there are two looks to compare."""

    submitted: float | None = None
    ended: float | None = None
    trend: Sequence[float] = ()
    """What ended per second between looks, oldest first."""


@dataclass(frozen=True, slots=True)
class _Sample:
    now: int
    totals: Mapping[str, tuple[int, int]]
    """By queue: jobs that there are or were, and those of them that ended."""


class Rates:
    """Remembers the last looks.

    What is pruned between two looks is counted by the engine, unless it tells of one tenant.
    What is purged cannot be told from what did not happen: then a rate is too low for a moment,
    and never below zero.
    """

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque(maxlen=_MOST_SAMPLES)

    def note(self, now: int, queues: Sequence[QueueCounts]) -> None:
        """Take a look into account."""
        if self._samples and now <= self._samples[-1].now:
            # The engine's clock was set back: what was before tells nothing.
            self._samples.clear()
        totals = {
            one.queue: (_all(one) + one.pruned, ended(one) + one.pruned) for one in queues
        }
        self._samples.append(_Sample(now, totals))

    def of(self, queue: str) -> Rate:
        """How fast a queue goes, over the last ten seconds."""
        if len(self._samples) < 2:
            return Rate()
        newest = self._samples[-1]
        since = next(
            (one for one in self._samples if one.now >= newest.now - _WINDOW_US),
            newest,
        )
        # Looks may be further apart than the window.
        since = self._samples[-2] if since is newest else since
        submitted, gone = _between(since, newest, queue)
        return Rate(submitted, gone, self._trend(queue))

    def _trend(self, queue: str) -> list[float]:
        return [_between(one, next_one, queue)[1] for one, next_one in pairwise(self._samples)]


def ended(one: QueueCounts) -> int:
    """Jobs that are over."""
    return one.succeeded + one.dead + one.cancelled


def _all(one: QueueCounts) -> int:
    return one.ready + one.scheduled + one.running + ended(one)


def _between(before: _Sample, after: _Sample, queue: str) -> tuple[float, float]:
    seconds = (after.now - before.now) / 1_000_000
    had, has = before.totals.get(queue, (0, 0)), after.totals.get(queue, (0, 0))
    return max(has[0] - had[0], 0) / seconds, max(has[1] - had[1], 0) / seconds
