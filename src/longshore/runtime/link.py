"""How long a round trip to a server takes, and the log line that says when it takes long."""

import logging
from time import monotonic

__all__ = ["Link"]

log = logging.getLogger("longshore.link")

_SLOW_SECONDS = 1.0
"""Setting a connection up takes less on any link that nobody has to know of."""
_SLOW_ROUND_TRIP = 0.05
"""With less than that it is not the link that is slow."""
_SAID_AGAIN = 600.0


class Link:
    """The way to one server.

    Setting a connection up is a row of round trips. The quickest answer that was ever seen is
    taken as what one of them costs.
    """

    def __init__(self, place: str) -> None:
        """`place` is the server, as messages name it."""
        self._place = place
        self._quickest: float | None = None
        self._said_at: float | None = None

    @property
    def round_trip(self) -> float:
        """Seconds; 0 while nothing is known."""
        return self._quickest or 0.0

    def answered(self, seconds: float) -> None:
        """The server answered one small request after so many seconds."""
        quickest = self._quickest
        self._quickest = seconds if quickest is None else min(quickest, seconds)

    def connected(self, seconds: float) -> None:
        """A connection was set up; says so if that took long, at most once in ten minutes."""
        now = monotonic()
        is_said = self._said_at is not None and now - self._said_at < _SAID_AGAIN
        if seconds < _SLOW_SECONDS or is_said:
            return
        self._said_at = now
        trip = self.round_trip
        if trip >= _SLOW_ROUND_TRIP:
            why = f"{round(seconds / trip)} round trips of about {trip * 1000:.0f} ms"
        else:
            why = "not for the link, but because the server was slow to let it in"
        log.warning(
            f"connecting to {self._place} took {seconds:.1f} s: {why}",
            extra={"seconds": round(seconds, 3), "round_trip": round(trip, 3)},
        )
