"""Retries that failed together do not come back together.

When a dependency is down, everything fails, backs off for about as long, and is back at once.
A budget places the retries of one queue in seconds that have room for them: nine tenths of
what normally succeeds in a second, and never few; or as many as somebody said. A retry is never
earlier than it was to be, and one that is alone, or among few, is exactly when it was to be.

Each session of a fleet decides its own retries, and nobody is asked. What a fleet may do in a
second, without anything having succeeded or because it was said, is dealt to its sessions: the
one at place k of n gets what floor(x + k/n) grows by as x grows by a share. Over all k these
are floor(n·x), so the shares are together what was to be shared, in every second, also where
each is less than one.
"""

from collections import deque

__all__ = ["LEAST", "RetryBudget"]

LEAST = 100
"""Retries of a queue that every second has room for, in the whole fleet."""
_SECOND = 1_000_000
_SPAN = 10 * _SECOND
"""Successes are counted in spans of ten seconds, which are the same for the whole fleet: who
came to its first job late would take it for all that a shorter time has."""
_SPANS = 60
"""The last so many in which anything succeeded say what is normal."""
_TIDY_EVERY = 60
_THOUSANDTHS = 1_000
"""Rates are counted in these."""


class RetryBudget:
    """The retries of one queue, as far as one session decides them. Times are of any clock."""

    __slots__ = (
        *("_is_said", "_normal", "_of", "_place", "_placed", "_rate"),
        *("_seen", "_skips", "_spans", "_tidied"),
    )

    def __init__(self) -> None:
        self._spans: deque[list[int]] = deque(maxlen=_SPANS)
        """Each: since when, and how many succeeded in it."""
        self._placed: dict[int, int] = {}
        """Second → retries that are due in it."""
        self._skips: dict[int, int] = {}
        """A second that is full → one that may have room."""
        self._seen = -1
        """The second for which `_normal` was computed."""
        self._normal = 0
        self._tidied = 0
        self._place, self._of, self._is_said = 0, 1, False
        self._rate = LEAST * _THOUSANDTHS

    def share(self, *, place: int, of: int, rate: float | None) -> None:
        """The session is at that place, from 0, of so many that serve the queue.

        With a rate, so many retries a second come back to it, whatever succeeds.
        """
        known = self._place, self._of, self._rate, self._is_said
        parts = max(round((LEAST if rate is None else rate) * _THOUSANDTHS), 1)
        if known != (place, of, parts, rate is not None):
            self._place, self._of, self._rate, self._is_said = (
                place,
                of,
                parts,
                rate is not None,
            )
            self._seen = -1
            self._skips.clear()

    def succeeded(self, count: int, now: int) -> None:
        """So many jobs of the queue did. Cheap: it is told with every batch."""
        span = now - now % _SPAN
        if self._spans and self._spans[-1][0] == span:
            self._spans[-1][1] += count
        else:
            self._spans.append([span, count])

    def delay(self, wanted: int, now: int, chance: float) -> int:
        """How long a retry is to wait that was to wait as long as `wanted`.

        `chance`, in [0, 1), parts those that share a second.
        """
        self._look(now)
        first = (now + wanted) // _SECOND
        at = self._first_with_room(first)
        there = self._placed.get(at, 0)
        self._placed[at] = there + 1
        if at == first:
            return wanted
        return at * _SECOND + int(_SECOND * (there + chance) / self._room(at)) - now

    def _look(self, now: int) -> None:
        """Say once a second what is normal, and forget what is over."""
        second = now // _SECOND
        if second == self._seen:
            return
        self._seen = second
        self._normal = 0 if self._is_said else self._usual(now)
        if second - self._tidied >= _TIDY_EVERY:
            self._tidied = second
            self._placed = {at: n for at, n in self._placed.items() if at >= second}
            self._skips = {at: to for at, to in self._skips.items() if at >= second}

    def _usual(self, now: int) -> int:
        """Nine tenths of the successes per second, so that with first tries it is below two.

        Time in which nothing succeeds is no normal time.
        """
        if not self._spans:
            return 0
        last = min(max(now - self._spans[-1][0], _SECOND), _SPAN)
        covered = last + (len(self._spans) - 1) * _SPAN
        return sum(count for _, count in self._spans) * _SECOND // covered * 9 // 10

    def _room(self, second: int) -> int:
        return max(self._dealt(second + 1) - self._dealt(second), self._normal)

    def _dealt(self, second: int) -> int:
        """How much of the fleet's rate this session has had up to a second."""
        parts = second * self._rate + self._place * _THOUSANDTHS
        return parts // (self._of * _THOUSANDTHS)

    def _first_with_room(self, first: int) -> int:
        at = self._dealt_from(first)
        while self._placed.get(at, 0) >= self._room(at):
            at = self._dealt_from(self._skips.get(at, at + 1))
        if at != first:
            self._skips[first] = at
        return at

    def _dealt_from(self, second: int) -> int:
        """The first second, from this one on, of which this session has a part."""
        if self._normal:
            return second
        due = (self._dealt(second) + 1) * self._of * _THOUSANDTHS
        return max(-((self._place * _THOUSANDTHS - due) // self._rate) - 1, second)
