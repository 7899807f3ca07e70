"""Looks over the slots twenty times a second: timeouts, starts, cancels that were ignored.

Where thousands of handlers are under way, ten times.
"""

import asyncio
import logging
from collections.abc import Callable

from longshore.contract import Reference
from longshore.runtime.clock import Clock
from longshore.runtime.ticker import Beat
from longshore.worker.attempt import Attempt, Stop
from longshore.worker.log_fields import facts
from longshore.worker.outcome import Judge
from longshore.worker.settler import Settler
from longshore.worker.shutdown import Departure
from longshore.worker.slots import Slots

__all__ = ["Sweep"]

log = logging.getLogger("longshore.worker")

_EVERY = 0.05
_MANY, _EVERY_OF_MANY = 1_000, 0.1
_IDLE = 1.0
_REPORT_AFTER = 0.5
"""Seconds after which a start is worth telling the engine of. A job that ends sooner tells it
by its settlement."""
_REPORT_BY = 0.8
_LONGEST_WAIT = 1.0
"""Seconds in the buffer after which a job is given back."""
_TELL_AGAIN = 1.0
_TELLINGS = 5
_ABANDONED_AFTER = 5.0
_WORN_OUT = 0.1
"""The share of abandoned slots past which a worker should make room for a fresh one."""


class Sweep:
    """One pass over what runs and what waits. No job has a timer of its own."""

    def __init__(
        self,
        slots: Slots,
        settler: Settler,
        *,
        judge: Judge,
        departure: Departure,
        clock: Clock,
        on_worn_out: Callable[[], None],
    ) -> None:
        self._slots = slots
        self._settler = settler
        self._judge = judge
        self._departure = departure
        self._clock = clock
        self._on_worn_out = on_worn_out
        self._starts: list[Attempt] = []
        self._is_idle = True
        self.beat = Beat("sweep", self.tick)

    def wake(self) -> None:
        """There is something to look over again."""
        if self._is_idle:
            self.beat.nudge()

    async def tick(self) -> float:
        """See to everything whose time has come."""
        now = self._clock.monotonic()
        attempts = self._slots.attempts()
        # Of the thousands there may be, hardly any has to be looked at.
        worth_telling = now - _REPORT_AFTER
        due = [
            one
            for one in attempts
            if one.stop
            or one.deadline <= now
            or (one.started <= worth_telling and not one.is_start_known)
        ]
        for attempt in due:
            self._look_at(attempt, now)
        self._settler.release(self._slots.take_waiting(since=now - _LONGEST_WAIT))
        self._see_off(attempts, now)
        if self.is_report_due:
            self._settler.bell.set()
        if self._departure.ending is None and self._is_worn_out(due, now):
            self._on_worn_out()
        self._is_idle = not attempts and not self._slots.waiting
        if self._is_idle:
            return _IDLE
        return _EVERY if len(attempts) < _MANY else _EVERY_OF_MANY

    def take_starts(self) -> list[Reference]:
        """The starts that the engine should hear of now; each is returned once."""
        starts, self._starts = self._starts, []
        return [one.reference for one in starts if not one.finished and one.stop < Stop.LOST]

    @property
    def is_report_due(self) -> bool:
        """The engine has to hear of the starts now."""
        starts = self._starts
        return bool(starts) and self._clock.monotonic() >= starts[0].started + _REPORT_BY

    def forget(self) -> None:
        """The session is gone, and the starts with it."""
        self._starts.clear()

    def _look_at(self, attempt: Attempt, now: float) -> None:
        if now >= attempt.deadline and attempt.stop < Stop.TIMEOUT:
            attempt.tell(Stop.TIMEOUT, now)
        elif attempt.stop and now >= attempt.told + attempt.tellings * _TELL_AGAIN:
            if attempt.tellings < _TELLINGS:
                attempt.tell(attempt.stop, now)
            elif attempt.stop < Stop.LOST and self._departure.ending is None:
                self._leave_behind(attempt)
        elif not attempt.is_start_known and now >= attempt.started + _REPORT_AFTER:
            attempt.is_start_known = True
            self._starts.append(attempt)
            if log.isEnabledFor(logging.DEBUG):
                known = facts(attempt.claim, self._settler.standing.worker)
                log.debug("attempt started", extra=known)

    def _leave_behind(self, attempt: Attempt) -> None:
        """Settle a coroutine that has swallowed every cancellation, and free its room.

        A thread keeps both until it ends or the worker leaves: it cannot be told so strongly.
        """
        if isinstance(attempt.task, asyncio.Task):
            known = facts(attempt.claim, self._settler.standing.worker)
            log.warning("handler left behind", extra=known | {"told": attempt.tellings})
            self._settler.leave(attempt, self._judge.unfinished(attempt))
            self._slots.leave_behind(attempt)

    def _is_worn_out(self, attempts: list[Attempt], now: float) -> bool:
        abandoned = sum(_is_abandoned(attempt, now) for attempt in attempts)
        return abandoned > self._slots.rooms * _WORN_OUT

    def _see_off(self, attempts: list[Attempt], now: float) -> None:
        """Hold a departing worker to its deadlines."""
        if self._departure.ending is None:
            return
        # For handlers that are past all telling it need not wait.
        is_late = now >= self._departure.stop_by or all(
            _is_abandoned(attempt, now) for attempt in attempts
        )
        for attempt in attempts:
            if is_late and attempt.stop < Stop.LOST:
                self._settler.leave(attempt, self._judge.unfinished(attempt))
            elif attempt.stop is Stop.NO and now >= self._departure.finish_by:
                attempt.tell(Stop.DRAIN, now)


def _is_abandoned(attempt: Attempt, now: float) -> bool:
    """Told to stop, long past its right to the slot, and running on."""
    is_unwanted = attempt.stop in (Stop.TIMEOUT, Stop.CRASH, Stop.LOST)
    return is_unwanted and now >= attempt.told + _ABANDONED_AFTER
