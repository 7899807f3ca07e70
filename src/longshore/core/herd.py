"""Retries that failed together do not come back together.

When a dependency is down, everything fails, backs off for about as long, and is back at once.
A budget places the retries of one queue in seconds that have room for them: nine tenths of
what normally succeeds in a second, and never few. A retry is never earlier than it was to be,
and one that is alone, or among few, is exactly when it was to be.
"""

from collections import deque

__all__ = ["LEAST", "RetryBudget"]

LEAST = 100
"""Retries that every second has room for."""
_SECOND = 1_000_000
_SPAN = 10 * _SECOND
"""Successes are counted in spans of ten seconds."""
_SPANS = 60
"""The last so many in which anything succeeded say what is normal."""
_TIDY_EVERY = 60


class RetryBudget:
    """The retries of one queue, as far as one worker decides them. Times are of any clock."""

    __slots__ = ("_most", "_placed", "_seen", "_skips", "_spans", "_tidied")

    def __init__(self) -> None:
        self._spans: deque[list[int]] = deque(maxlen=_SPANS)
        """Each: since when, and how many succeeded in it."""
        self._placed: dict[int, int] = {}
        """Second → retries that are due in it."""
        self._skips: dict[int, int] = {}
        """A second that is full → one that may have room."""
        self._seen = -1
        """The second for which `_most` was computed."""
        self._most = LEAST
        self._tidied = 0

    def succeeded(self, count: int, now: int) -> None:
        """So many jobs of the queue did. Cheap: it is told with every batch."""
        if self._spans and now - self._spans[-1][0] < _SPAN:
            self._spans[-1][1] += count
        else:
            self._spans.append([now, count])

    def delay(self, wanted: int, now: int, chance: float) -> int:
        """How long a retry is to wait that was to wait as long as `wanted`.

        `chance`, in [0, 1), parts those that share a second.
        """
        most = self._room(now)
        due = now + wanted
        first = due // _SECOND
        at = self._first_with_room(first, most)
        there = self._placed.get(at, 0)
        self._placed[at] = there + 1
        if at == first:
            return wanted
        return at * _SECOND + int(_SECOND * (there + chance) / most) - now

    def _room(self, now: int) -> int:
        second = now // _SECOND
        if second != self._seen:
            self._seen = second
            self._most = max(self._normal(now), LEAST)
            if second - self._tidied >= _TIDY_EVERY:
                self._tidied = second
                self._placed = {at: n for at, n in self._placed.items() if at >= second}
                self._skips = {at: to for at, to in self._skips.items() if at >= second}
        return self._most

    def _normal(self, now: int) -> int:
        """Nine tenths of the successes per second, so that with first tries it is below two.

        Time in which nothing succeeds is no normal time.
        """
        if not self._spans:
            return 0
        last = min(max(now - self._spans[-1][0], _SECOND), _SPAN)
        covered = last + (len(self._spans) - 1) * _SPAN
        return sum(count for _, count in self._spans) * _SECOND // covered * 9 // 10

    def _first_with_room(self, first: int, most: int) -> int:
        at = first
        while self._placed.get(at, 0) >= most:
            at = self._skips.get(at, at + 1)
        if at != first:
            self._skips[first] = at
        return at
