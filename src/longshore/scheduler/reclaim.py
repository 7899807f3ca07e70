"""Settle what a vanished worker held, so that it runs elsewhere."""

import logging
import random
from collections.abc import Callable
from typing import Protocol

from longshore.contract import Keeper, Lapsed, Steward
from longshore.core import poison
from longshore.runtime.clock import Clock, SystemClock
from longshore.runtime.ticker import FAULTS_OF_STORE
from longshore.scheduler.jitter import early

__all__ = ["Reclaimer", "TimedSteward"]

log = logging.getLogger("longshore.scheduler")

_SECOND = 1_000_000
_GRACE_US = 2 * _SECOND
_TICK = 1.0
_LONGEST_GAP = 2 * _TICK
_SESSIONS = 20
_SLOW_TRIP = 0.1
"""Seconds of a round trip with which sessions are looked at one by one."""
_TRIPS = 16
"""Round trips that a look at one session takes at most."""


class TimedSteward(Steward, Keeper, Protocol):
    """A steward that also tells the engine's time, by which leases end."""

    async def now(self) -> int:
        """The engine's clock, microseconds since the epoch."""
        ...


class Reclaimer:
    """Reclaims lapsed sessions. Several of them do no harm: the engine lets one bury each.

    A lease may also lapse because nobody was able to renew it: the machine stood still, the
    engine was down, its clock was set forward. A reclaimer that notices any of these waits one
    full lease, in which the living may renew. It notices by its pulse: more than two ticks
    between two answers of the engine, or an engine clock that ran ahead by as much. Where each
    answer takes long, as over a slow link, it is that much more.
    """

    def __init__(
        self,
        engine: TimedSteward,
        *,
        lease: int,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        on_reclaimed: Callable[[int], None] | None = None,
    ) -> None:
        self._engine = engine
        self._lease = lease / _SECOND
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()
        self._on_reclaimed = on_reclaimed
        self._pulse: float | None = None
        self._ahead: int | None = None
        self._trip = 0.0
        """Seconds of the quickest answer so far."""
        self._waits_until = 0.0
        self._unfit = 0
        """How many of the lapsed sessions could not be reclaimed at the last look."""

    async def tick(self) -> float:
        """Reclaim what has lapsed; look again in a second, at once while there is more."""
        if self._pulse is None:
            self._pulse = self._clock.monotonic()
        # Those that stay are the oldest: they must not crowd out the others.
        limit = (_SESSIONS if self._trip < _SLOW_TRIP else 1) + self._unfit
        lapsed = await self._engine.expired_sessions(grace=_GRACE_US, limit=limit)
        # Asked after the list was read: had the clock been set forward before it, we see it.
        self._watch_clock(await self._ask_time())
        unfit = 0
        for session in lapsed:
            # A pause since the list was read makes the list as doubtful as one before it.
            if self._watch_pulse() < self._waits_until:
                break
            unfit += not await self._reclaim(session)
        self._unfit = unfit
        has_more = len(lapsed) == limit and self._watch_pulse() >= self._waits_until
        return 0.0 if has_more else early(_TICK, self._rng)

    async def _reclaim(self, session: Lapsed) -> bool:
        """Whether nothing of the session is left to be reclaimed."""
        try:
            settlements = poison.unreported(session.held)
            jobs = await self._engine.end_session(session.token, settlements, grace=_GRACE_US)
        except FAULTS_OF_STORE:
            raise
        except Exception:
            # Whatever it holds: the jobs of others run again. It is tried at every look.
            facts = {"worker": session.worker, "token": session.token}
            log.exception("session not reclaimed", extra=facts)
            return False
        # None when the session held nothing, was renewed, or another reclaimer was first.
        if jobs:
            facts = {"worker": session.worker, "token": session.token, "jobs": jobs}
            log.warning("session reclaimed", extra=facts)
            if self._on_reclaimed is not None:
                self._on_reclaimed(jobs)
        return True

    async def _ask_time(self) -> int:
        """The engine's clock. What the answer takes tells what any answer takes."""
        asked = self._clock.monotonic()
        engine_now = await self._engine.now()
        took = self._clock.monotonic() - asked
        self._trip = min(self._trip or took, took)
        return engine_now

    def _watch_pulse(self) -> float:
        """The time on the monotonic clock. Starts a wait when the last look is too long ago."""
        now = self._clock.monotonic()
        gap = now - (now if self._pulse is None else self._pulse)
        if gap > _LONGEST_GAP + _TRIPS * self._trip:
            self._wait("pause", gap)
        self._pulse = now
        return now

    def _watch_clock(self, engine_now: int) -> None:
        """Start a wait when the engine's clock ran ahead of the monotonic one."""
        ahead = engine_now - int(self._watch_pulse() * _SECOND)
        step = 0 if self._ahead is None else ahead - self._ahead
        if step > _LONGEST_GAP * _SECOND:
            self._wait("clock step", step / _SECOND)
        self._ahead = ahead

    def _wait(self, reason: str, seconds: float) -> None:
        self._waits_until = self._clock.monotonic() + self._lease
        facts = {"reason": reason, "seconds": round(seconds, 3), "wait": self._lease}
        log.warning("reclaim put off", extra=facts)
