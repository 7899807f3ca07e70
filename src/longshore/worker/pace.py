"""How many jobs to hold ready beside the running ones."""

__all__ = ["Pace"]

_AHEAD = 0.05
"""Seconds of work a worker may hold in its buffer: enough to bridge an exchange, and little
enough that a neighbour with idle slots is not kept waiting."""
_AHEAD_BY_TURNS = 0.02
"""Where tenants take turns. Jobs that take no time are claimed as fast as exchanges go, and an
exchange then takes about as long as what it claims was to last: whoever comes waits for two."""
_BATCH_BY_TURNS = 256
"""There, the least that is worth an exchange. Where commits are slow fewer would starve it.
A worker whose jobs are of many lengths ends some in bursts: it holds what it ends on average,
or else one burst would fill its buffer with a second of work, for which newcomers wait."""
_SLOW = 0.1
"""There, a worker whose jobs take longer than this on average holds none in advance: a room
that stands empty for an exchange costs it a few hundredths, and it has the next in turn."""
_FEW = 16
"""Jobs that a worker asks for beyond its buffer when some became due, or where tenants take
turns: a small part of what it has ahead. A worker whose jobs are slow asks for none."""
_WINDOW = 0.01
_MEMORY = 0.25
"""Seconds after which a rate that has ended counts for nothing."""


class Pace:
    """Measures how fast jobs end here. A worker whose jobs are slow holds none in advance.

    Ends are counted, not starts: a batch of long jobs starts in a moment and says nothing of
    when the next slot will be free.
    """

    def __init__(self, rooms: int) -> None:
        """The worker has so many."""
        self._rooms = rooms
        self._since = 0.0
        self._ended = 0
        self._rate = 0.0
        """Up at once, down slowly: one quiet window is no reason to empty the buffer."""
        self._mean = 0.0
        """Up as slowly as down."""
        self.by_turns = False
        """The jobs are from queues whose tenants take turns."""

    def ended(self, count: int, now: float) -> None:
        """`count` jobs have ended since the last call."""
        self._ended += count
        elapsed = now - self._since
        if elapsed < _WINDOW:
            return
        rate = self._ended / elapsed
        fade = min(elapsed / _MEMORY, 1.0)
        self._mean += fade * (rate - self._mean)
        self._rate += (rate - self._rate) * (1.0 if rate > self._rate else fade)
        self._since = now
        self._ended = 0

    @property
    def ahead(self) -> int:
        """How many jobs to hold ready, at the current rate."""
        if not self.by_turns:
            return int(self._rate * _AHEAD)
        if self._mean * _SLOW < self._rooms:
            return 0
        return min(
            int(self._mean * _AHEAD),
            max(int(self._mean * _AHEAD_BY_TURNS), _BATCH_BY_TURNS),
        )

    def want(self, spare: int, *, has_due: bool, rides: bool) -> int:
        """How many jobs to ask for, with so many rooms for which none waits.

        `has_due`: some became due. `rides`: asking costs no commit of its own.
        """
        ahead = self.ahead
        want = spare + ahead
        # A claim of two or three to keep the buffer brimful is not worth its commit. But what
        # became due goes before what waits here, and so does who comes by turns.
        if want < max(ahead // 2, 1):
            is_worth = has_due or (rides and self.by_turns)
            has_room = ahead >= 4 * _FEW and want > -_FEW
            want = max(want, _FEW) if is_worth and has_room else 0
        return want
