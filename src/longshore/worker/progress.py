"""Collects what handlers say of their progress, until an exchange takes it to the engine."""

import asyncio
import threading
from collections.abc import Sequence
from typing import cast

import msgspec

from longshore.contract import Reference
from longshore.core.job import Report, Settlement
from longshore.job_context import Slot
from longshore.worker.attempt import Attempt, Stop
from longshore.worker.lease import NEVER, Standing

__all__ = ["Bulletin"]

_ROUND = 0.5
"""Seconds between two exchanges that carry progress. One takes the latest word of all jobs, so
what is reported costs at most two commits a second, however many jobs report."""
_GATHER = 0.01
"""Seconds that the first report of a round waits for others."""


class _Unsent(msgspec.Struct):
    """What a job said and the engine has not heard: its first word, if so, and its latest."""

    attempt: Attempt
    reports: list[Report]


class Bulletin:
    """The latest word of every job that has any news. Handlers write from any thread."""

    def __init__(self, standing: Standing, bell: asyncio.Event) -> None:
        self._standing = standing
        self._bell = bell
        self._lock = threading.Lock()
        self._unsent: dict[Reference, _Unsent] = {}
        self._next_round = -NEVER
        self._loop: asyncio.AbstractEventLoop
        self._thread = 0
        self.due = NEVER
        """When an exchange should carry what is here, on the loop's clock."""

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Ring on this loop, which is the caller's."""
        self._loop = loop
        self._thread = threading.get_ident()

    def now(self) -> int:
        """The engine's clock, as far as it is known here."""
        return self._standing.engine_time(self._standing.clock.monotonic())

    def report(self, slot: Slot, fraction: float, message: str | None) -> None:
        """Keep it, unless the job has ended or is no longer this worker's."""
        attempt = cast("Attempt", slot)
        if attempt.finished or attempt.stop is Stop.LOST:
            return
        said = Report(*attempt.reference, fraction, message)
        with self._lock:
            unsent = self._unsent.get(attempt.reference)
            if unsent is None:
                self._unsent[attempt.reference] = _Unsent(attempt, [said])
            elif len(unsent.reports) == 1 and not attempt.is_progress_known:
                unsent.reports.append(said)
            else:
                unsent.reports[-1] = said
            is_news = self.due is NEVER
            if is_news:
                self.due = max(self._loop.time() + _GATHER, self._next_round)
        if is_news:
            self._ring()

    def take(self, ended: Sequence[Settlement]) -> list[Report]:
        """What the next exchange should carry, the last words of those that ended included."""
        if self.due is NEVER:
            return []
        now = self._loop.time()
        with self._lock:
            if now >= self.due or not self._unsent:
                taken = list(self._unsent.values())
                self._unsent.clear()
                self.due = NEVER
                self._next_round = now + _ROUND if taken else self._next_round
            else:
                names = [(one.handle, one.delivery) for one in ended]
                taken = [self._unsent.pop(name) for name in names if name in self._unsent]
            for one in taken:
                one.attempt.is_progress_known = True
        return [report for one in taken for report in one.reports]

    def forget(self) -> None:
        """The session is gone, and with it whoever would listen."""
        with self._lock:
            self._unsent.clear()
            self.due = NEVER

    def _ring(self) -> None:
        if threading.get_ident() == self._thread:
            self._bell.set()
        else:
            self._loop.call_soon_threadsafe(self._bell.set)
