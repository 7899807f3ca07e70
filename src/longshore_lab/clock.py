"""A clock that stands still while its process does, like that of a paused virtual machine."""

import time

__all__ = ["DozingClock"]

_DOZE = 0.75
"""Seconds between two looks at the clock that can only mean that the process stood still."""

_DROWSY = 0.5


class DozingClock:
    """Hides from a worker that it stood still, so that it goes on as if nothing had happened.

    A worker with a true clock notices by itself that its lease is over, and settles nothing.
    One with this clock does not, and only the engine's fence is left.
    """

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._dozed = 0.0
        self._woke = 0.0

    @property
    def has_just_woken(self) -> bool:
        """It stood still until a moment ago."""
        return time.monotonic() - self._woke < _DROWSY

    def now(self) -> int:
        """The machine's wall clock."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """Seconds in which the process was awake."""
        moment = time.monotonic()
        gap = moment - self._last
        if gap > _DOZE:
            self._dozed += gap
            self._woke = moment
        self._last = moment
        return moment - self._dozed
