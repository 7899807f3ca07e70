"""Turn due times of schedules into jobs."""

import asyncio
import logging
import random
from collections.abc import Callable, Iterator, Sequence

from longshore.core import ids
from longshore.core.schedule import DueSchedule, Firing, Schedule, decide, validate
from longshore.observe.engine import metrics_of
from longshore.records import schedules
from longshore.runtime.clock import Clock, SystemClock
from longshore.runtime.ids import IdSource
from longshore.runtime.ticker import FAULTS_OF_STORE
from longshore.scheduler.jitter import late
from longshore.scheduler.reclaim import TimedSteward

__all__ = ["Firer"]

log = logging.getLogger("longshore.scheduler")

_SECOND = 1_000_000
_BATCH = 100
_AT_ONCE = 4
"""Firings under way: they share commits, and leave connections to the other ticks."""
_SPREAD = 0.02
_ASK_TIME_AGAIN = 30.0
"""Seconds. When the engine's clock was set, looks miss the whole second no longer than this."""


class Firer:
    """Fires due schedules. With any number of firers each due time fires once.

    The engine applies a firing only while its due time is still the schedule's next one, in
    one commit with the jobs, so firers need not know of each other. What is due, the engine's
    clock decides; this machine's wall clock is not asked at all.
    """

    def __init__(
        self,
        engine: TimedSteward,
        id_source: IdSource,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        on_fired: Callable[[int], None] | None = None,
    ) -> None:
        self._engine = engine
        self._id_source = id_source
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()
        self._on_fired = on_fired
        self._lateness = metrics_of(engine).schedule_lateness
        self._ahead = 0
        """From the monotonic clock to the engine's, in microseconds."""
        self._asked_time = -_ASK_TIME_AGAIN
        self._coming: set[int] = set()
        self._unfit = 0
        """How many of the due schedules this process was unable to fire when it last looked."""
        self._complaints: set[tuple[str, str, str]] = set()

    async def tick(self) -> float:
        """Fire what is due; look again when something may be, within a second."""
        # Those that stay due are the oldest: they must not crowd out the others.
        limit = _BATCH + self._unfit
        due = await schedules.due(self._engine, limit=limit)
        if due:
            self._set_time(due[0].now)
        elif self._clock.monotonic() - self._asked_time >= _ASK_TIME_AGAIN:
            self._set_time(await self._engine.now())
        self._unfit = await self._fire_all(due)
        if len(due) == limit:
            return 0.0
        return late(self._until_next_due(), self._rng, by=_SPREAD)

    async def _fire_all(self, due: Sequence[DueSchedule]) -> int:
        """Fire these; how many of them this process cannot fire."""
        # In an order of its own: replicas that look at the same moment share the work.
        waiting = iter(self._rng.sample(due, len(due)))
        lanes = [self._fire_some(waiting) for _ in range(min(_AT_ONCE, len(due)))]
        # No task group: one that fails leaves its task with a cancellation, which `timeout` of
        # Python 3.11.2 takes for somebody's wish.
        found = await asyncio.gather(*lanes, return_exceptions=True)
        unfit = 0
        for one in found:
            if isinstance(one, BaseException):
                raise one
            unfit += one
        return unfit

    async def _fire_some(self, waiting: Iterator[DueSchedule]) -> int:
        return sum([not await self._fire(one) for one in waiting])

    async def _fire(self, due: DueSchedule) -> bool:
        try:
            validate(due.schedule)
            firing = decide(due, self._id_source.make)
            jobs = await self._engine.fire(firing)
        except FAULTS_OF_STORE:
            raise
        except Exception as error:
            # A schedule that cannot be fired here, say for a time zone that this process does
            # not know, or now, into a queue that is full, must not hold up the others. It
            # stays due; what passes meanwhile its catch-up policy decides.
            self._complain(due.schedule, error)
            return False
        if firing.next_due is not None:
            self._coming.add(firing.next_due)
        self._tell(due, firing, len(jobs))
        where = (firing.tenant, firing.name)
        self._complaints = {fact for fact in self._complaints if fact[:2] != where}
        return True

    def _complain(self, schedule: Schedule, error: Exception) -> None:
        fact = (schedule.tenant, schedule.name, str(error))
        if fact not in self._complaints:
            self._complaints.add(fact)
            names = {"schedule": schedule.name, "tenant": schedule.tenant}
            log.warning("schedule not fired", extra={**names, "error": str(error)})

    def _tell(self, due: DueSchedule, firing: Firing, jobs: int) -> None:
        names = {"schedule": firing.name, "tenant": firing.tenant}
        if not firing.shots or firing.shots[0].due > firing.expected:
            policy = {"catch_up": due.schedule.catch_up, "fires": len(firing.shots)}
            log.warning("due times missed", extra={**names, "since": firing.expected, **policy})
        # None when another firer was first.
        if not jobs:
            return
        for shot in firing.shots:
            facts = {
                **names,
                "due": shot.due,
                "late_ms": (due.now - shot.due) // 1_000,
                "job": ids.text(shot.job.id) if shot.job else None,
            }
            if shot.job:
                self._lateness.observe((due.now - shot.due) / _SECOND)
            log.info("schedule fired" if shot.job else "schedule skipped", extra=facts)
        if self._on_fired is not None:
            self._on_fired(jobs)

    def _set_time(self, engine_now: int) -> None:
        self._asked_time = self._clock.monotonic()
        self._ahead = engine_now - int(self._asked_time * _SECOND)

    def _until_next_due(self) -> float:
        """Seconds until a due time that is known, or until the next whole second.

        Cron is due on whole seconds, so whatever another process declared meanwhile is found
        in time; an interval off the seconds is late once, by less than a second.
        """
        now = int(self._clock.monotonic() * _SECOND) + self._ahead
        whole_second = now - now % _SECOND + _SECOND
        # One that came while others were being fired is looked for at once, and once.
        soonest = min(self._coming, default=whole_second)
        self._coming = {due for due in self._coming if now < due < whole_second}
        return (min(soonest, whole_second) - now) / _SECOND
