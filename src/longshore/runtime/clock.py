"""The only module that knows what time it is."""

import time
from typing import Protocol

__all__ = ["Clock", "ManualClock", "SystemClock"]

SECOND = 1_000_000


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> int:
        """Microseconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds that only ever grow, for durations and deadlines."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        """Microseconds since the epoch."""
        return time.time_ns() // 1000

    # The function itself: it is called several times per job, and a method around it costs
    # twice as much as it does.
    monotonic = staticmethod(time.monotonic)


class ManualClock:
    """A clock that moves only when told to. For tests."""

    def __init__(self, start: int = 1_767_225_600_000_000) -> None:
        self._now = start
        self._monotonic = 1_000.0

    def now(self) -> int:
        """The moment this clock was last moved to."""
        return self._now

    def monotonic(self) -> float:
        """Moves with `advance`, never with `step`."""
        return self._monotonic

    def advance(self, microseconds: int) -> None:
        """Let time pass."""
        self._now += microseconds
        self._monotonic += microseconds / SECOND

    def step(self, microseconds: int) -> None:
        """Set the wall clock forward or back, as an administrator would."""
        self._now += microseconds
