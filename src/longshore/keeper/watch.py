"""One keeper's watch over one worker: renew, end what stands still, report the death."""

import asyncio
import logging
import os
import random
from contextlib import suppress
from typing import Protocol

import msgspec

from longshore.contract import Keeper
from longshore.core.backoff import Backoff
from longshore.core.crash_record import Trace, aftermath
from longshore.core.job import Held
from longshore.errors import (
    EngineBusyError,
    EngineUnavailableError,
    LeaseLostError,
    LongshoreError,
)
from longshore.keeper.process import Ward
from longshore.runtime.clock import SECOND, Clock
from longshore.runtime.deadline import Deadline
from longshore.runtime.flight import Entry, FlightRecord
from longshore.runtime.ticker import Beat

__all__ = ["Charge", "TimedKeeper", "Watch"]

log = logging.getLogger("longshore.keeper")

_LOOK = 1.0
_LONGEST_GAP = 3 * _LOOK
_STANDSTILL = 10.0
"""Seconds without a pulse, and past a job's timeout, after which a worker is ended."""
_CALL = 5.0
_NO_SESSION = 0
_SILENT = 10.0
"""Seconds without a look after which a worker ends its keeper, or a lease if that is more."""
_PULSE_SHARE = 0.4
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 5.0
_PASSING = (EngineBusyError, EngineUnavailableError, TimeoutError)


class TimedKeeper(Keeper, Protocol):
    """What a keeper needs of an engine."""

    async def now(self) -> int:
        """The engine's clock, microseconds since the epoch."""
        ...


class Charge(msgspec.Struct, frozen=True, kw_only=True):
    """Whom the keeper looks after."""

    worker: str
    lease: float
    """In seconds."""
    stuck_after: float = 60.0
    """Seconds without a sign of life from any of its threads after which it is stuck."""
    exit_when_stuck: bool = False
    ready_file: str | None = None
    """What shows that it is ready."""
    backoffs: dict[str, Backoff] = {}
    """By type, how long a job waits after a failure, where it is not the usual."""


class Watch:
    """Keeps a worker's lease while the worker lives, and buries its session when it dies.

    It renews beside the worker, which renews too: neither depends on the other. It renews for
    no worker that is stopped, and revives no lease that is over.
    """

    def __init__(
        self,
        engine: TimedKeeper,
        record: FlightRecord,
        ward: Ward,
        charge: Charge,
        *,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._engine = engine
        self._record = record
        self._ward = ward
        self._charge = charge
        self._clock = clock
        self._rng = rng
        self._every = charge.lease / 3
        self._most = _PULSE_SHARE * max(charge.lease, _SILENT)
        """Seconds that a call may take, with all that has to be set up for it: a keeper that is
        not seen to look for long enough is ended by its worker."""
        self._kept = 0
        """The session that was last renewed, or could not be."""
        self._due = 0.0
        self._offset: int | None = None
        """From the monotonic clock to the engine's."""
        self._is_stopped = False
        self._last_look = 0.0
        self._silence: tuple[float, float] = (0.0, 0.0)
        """A pulse, and since when it has been the last one, while both processes ran."""
        self._trance: tuple[float, float] = (0.0, 0.0)
        """The same for the worker's lookout, which runs as long as any thread can."""
        self._is_entranced = False
        self._has_killed = False
        self._over = asyncio.Event()
        self._beat = Beat("keep", self._tick)

    async def run(self) -> None:
        """Return when the worker is dead and this is reported, or it needs no keeper."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._ward.descriptor, self._over.set)
        keeping = asyncio.create_task(self._beat.run(), name=self._beat.name)
        try:
            await self._over.wait()
        finally:
            loop.remove_reader(self._ward.descriptor)
            keeping.cancel()
            await asyncio.wait([keeping])
        await self._report()

    def dismiss(self) -> None:
        """The worker seems to have left. Believed only if it has no session, or said so."""
        if not self._record.token or self._record.has_left:
            self._over.set()

    def nudge(self) -> None:
        """Look after the worker now."""
        self._beat.nudge()

    async def _tick(self) -> float:
        now = self._clock.monotonic()
        self._note_stop(self._ward.is_stopped)
        self._listen(now)
        if not self._is_stopped:
            self._end_if_stuck(now)
            self._note_trance(now)
            await self._keep(now)
        self._record.look(now)
        return min(_LOOK, self._every / 2) * self._rng.uniform(0.9, 1.0)

    async def _keep(self, now: float) -> None:
        token = self._record.token
        if token and not self._has_killed and (token != self._kept or now >= self._due):
            await self._renew(token)

    def _note_stop(self, is_stopped: bool) -> None:
        if is_stopped and not self._is_stopped:
            log.warning("worker is stopped, lease not renewed", extra=self._facts())
        self._is_stopped = is_stopped

    async def _renew(self, token: int) -> None:
        sent = self._clock.monotonic()
        # Long enough to wait behind others for a lock; there is time for one more try.
        patience = min(_CALL, self._every)
        try:
            async with Deadline(patience, at_most=self._most):
                answer = await self._engine.renew(token)
        except LeaseLostError:
            # The worker hears of it too, with its next call. There may be a session after it.
            log.warning("lease cannot be kept", extra=self._facts(token=token))
            self._due = float("inf")
        except (LongshoreError, TimeoutError) as error:
            # Also what asking again will not mend: the worker, which hears it too, decides.
            log.warning("renewal failed", extra=self._facts(error=str(error) or "no answer"))
            self._due = sent + self._every / 10 * self._rng.uniform(0.5, 1.5)
        else:
            self._record.renew(token, sent)
            self._offset = answer.now - int(self._clock.monotonic() * SECOND)
            self._due = sent + self._every
            if token != self._kept:
                await self._rehearse()
        self._kept = token

    async def _rehearse(self) -> None:
        """Ask once what will be asked in earnest, so that everything for it is in place.

        Not of the worker's own session: on a slow link its exchanges would wait for that.
        """
        with suppress(LongshoreError, TimeoutError):
            async with Deadline(_CALL, at_most=self._most):
                await self._engine.held(_NO_SESSION)

    def _listen(self, now: float) -> None:
        """Time in which the worker, or this process, was kept from running is no silence."""
        pulse, was_away = self._record.pulse, now - self._last_look > _LONGEST_GAP
        if pulse != self._silence[0] or self._is_stopped or was_away:
            self._silence = (pulse, now)
        glanced = self._record.glanced
        if glanced != self._trance[0] or self._is_stopped or was_away:
            self._trance = (glanced, now)
        self._last_look = now

    def _end_if_stuck(self, now: float) -> None:
        pulse, since = self._silence
        if self._has_killed or not pulse or now - since < _STANDSTILL:
            return
        overdue = [one for one in self._running() if one.deadline + _STANDSTILL <= now]
        if overdue:
            facts = self._facts(silent=round(now - since, 1), jobs=len(overdue))
            log.error("worker stands still past a timeout, ended", extra=facts)
            self._has_killed = True
            self._ward.kill()

    def _note_trance(self, now: float) -> None:
        """Say for the worker what it cannot: one of its handlers holds the interpreter."""
        glanced, since = self._trance
        was_entranced = self._is_entranced
        self._is_entranced = bool(glanced) and now - since >= self._charge.stuck_after
        if was_entranced and not self._is_entranced:
            log.warning("worker can claim again", extra=self._facts())
        if was_entranced or not self._is_entranced or self._has_killed:
            return
        why = "a handler holds the interpreter"
        log.error("worker is stuck", extra=self._facts(why=why, seconds=round(now - since, 1)))
        if self._charge.ready_file is not None:
            with suppress(OSError):
                os.unlink(self._charge.ready_file)
        if self._charge.exit_when_stuck:
            self._has_killed = True
            self._ward.kill()

    def _running(self) -> list[Entry]:
        return [one for one in self._record.entries() if one.ended is None]

    async def _report(self) -> None:
        """Bury the worker's session, unless the engine is away until its lease is over.

        From then on whoever reclaims does it, and nobody has to wait for the report: an engine
        that has gone for good would be asked for ever.
        """
        died, pause = self._clock.monotonic(), _FIRST_PAUSE
        # The last renewal may have been under way when the worker died.
        over = died + self._charge.lease + _CALL
        is_reported = not self._record.token
        while not is_reported and self._clock.monotonic() < over:
            is_reported = await self._try_to_report(died)
            if not is_reported:
                await asyncio.sleep(pause * self._rng.uniform(0.5, 1.5))
                pause = min(pause * 2, _LONGEST_PAUSE)
        if not is_reported:
            log.warning("death left to others to find", extra=self._facts())

    async def _try_to_report(self, died: float) -> bool:
        try:
            async with asyncio.timeout(max(_CALL, self._charge.lease)):
                await self._bury(self._record.token, died)
        except _PASSING as error:
            log.warning(
                "death not reported", extra=self._facts(error=str(error) or "no answer")
            )
            return False
        except LongshoreError as error:
            # Asking again would bring the same: a key that was revoked, another schema.
            log.warning("death cannot be reported", extra=self._facts(error=str(error)))
        return True

    async def _bury(self, token: int, died: float) -> None:
        held = await self._engine.held(token)
        if held is None:
            log.info("worker died without a session", extra=self._facts(token=token))
            return
        if self._offset is None:
            engine_now = await self._engine.now()
            self._offset = engine_now - int(self._clock.monotonic() * SECOND)
        settlements = aftermath(
            held,
            [self._trace(entry, died) for entry in self._record.entries()],
            is_whole=self._record.is_whole,
            now=self._engine_time(died),
            delay=self._delay,
        )
        jobs = await self._engine.end_session(token, settlements)
        crashed = sum(one.crash for one in settlements)
        seconds = round(self._clock.monotonic() - died, 4)
        facts = self._facts(token=token, jobs=jobs, crashed=crashed, seconds=seconds)
        log.warning("worker died, its jobs are free", extra=facts)

    def _delay(self, job: Held) -> int:
        backoff = self._charge.backoffs.get(job.type, Backoff())
        return backoff.delay(job.failures + 1, self._rng.random())

    def _trace(self, entry: Entry, died: float) -> Trace:
        is_late = self._has_killed and entry.ended is None and entry.deadline <= died
        return Trace(
            handle=entry.handle,
            delivery=entry.delivery,
            started_at=self._engine_time(entry.started),
            finished_at=None if entry.ended is None else self._engine_time(entry.ended),
            settlement=entry.settlement,
            in_child=entry.in_child,
            timed_out_after=(
                int((entry.deadline - entry.started) * SECOND) if is_late else None
            ),
        )

    def _engine_time(self, instant: float) -> int:
        return (self._offset or 0) + int(instant * SECOND)

    def _facts(self, **more: object) -> dict[str, object]:
        return {"worker": self._charge.worker, **more}
