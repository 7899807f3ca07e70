"""The worker's standing with the engine: a session, and how long it is safe to act under it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from random import Random
from typing import TypeVar, cast

from longshore.contract import (
    Completion,
    Engine,
    Exchanged,
    JobStore,
    Promoted,
    PromptSession,
    Reference,
    Renewed,
    Session,
    StandaloneSession,
    TransactionalSession,
)
from longshore.core.job import Attempt, Held, JobId, Report, Settlement
from longshore.core.responses import Share
from longshore.errors import (
    ConfigError,
    EngineBusyError,
    EngineError,
    EngineUnavailableError,
    ExchangeOrderError,
    LeaseLostError,
)
from longshore.operations.waiting import has_waiting_jobs
from longshore.runtime.clock import SECOND, Clock
from longshore.runtime.deadline import Deadline
from longshore.runtime.flight import FlightRecord
from longshore.worker.stats import WorkerStats

__all__ = ["NEVER", "Identity", "Standing"]

log = logging.getLogger("longshore.worker")

T = TypeVar("T")

_UNANSWERED = (EngineBusyError, EngineUnavailableError, ExchangeOrderError, TimeoutError)

NEVER = float("inf")

_MARGIN = 2.0
"""Seconds before the lease's end at which this worker stops acting under it, so that its
handlers are stopped before the engine may give their jobs away."""
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 1.0
_CALL = 5.0
"""Seconds for a call on which no lease depends. One that ends so gives the next twice as many:
an engine that hangs is asked again soon, and a slow one answers in the end."""
_LONGEST_CALL = 60.0
_CLOSE = 1.0
_CLOSE_TRIPS = 20
"""Round trips in which even a session that holds much is given back."""
_LONGEST_CLOSE = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a worker tells the engine when it opens a session."""

    worker: str
    queues: tuple[str, ...]
    types: tuple[str, ...]
    lease: float
    """In seconds."""


class Standing:
    """One session at a time. Calls are repeated until they are answered or the lease is over.

    The lease is counted from the moment a renewal was sent, on the monotonic clock: whatever
    the engine counts, it counts from later on. A LeaseLostError means that nothing which was
    sent and not answered may be taken as done.
    """

    def __init__(
        self,
        engine: JobStore,
        identity: Identity,
        *,
        clock: Clock,
        stats: WorkerStats,
        rng: Random,
    ) -> None:
        self._engine = engine
        # A service in front of a store has nothing for its workers but their sessions.
        is_beside = engine.traits.maintenance
        self._beside: Engine | None = cast("Engine", engine) if is_beside else None
        self._identity = identity
        self.worker = identity.worker
        self._lease = identity.lease
        self._rng = rng
        self.is_prompt = engine.traits.claims_at_wakeup
        """Whether `claim_at_wakeup` can be had."""
        self.clock = clock
        self.stats = stats
        self._session: Session | None = None
        self.record: FlightRecord | None = None
        """Tells the keeper of the session, and this side of the keeper's renewals."""
        self._offset = 0
        self._quickest = _LONGEST_CLOSE / _CLOSE_TRIPS
        """Seconds that the quickest exchange has taken: about a round trip."""
        self.number = 0
        """The last exchange that was answered."""
        self.until = NEVER
        """When the lease is over, on the monotonic clock, as far as this side knows."""
        self.leave_at = NEVER
        """When the worker leaves, answered or not."""
        self.answered: float | None = None
        """When the engine last let this worker claim, whether or not there was anything."""
        self.fed = 0.0
        """When it last got something, wanted nothing, or was told that nothing will come."""
        self.shares: Sequence[Share] = ()
        """How the session shares its queues with others, as the last renewal told."""

    @property
    def token(self) -> int:
        """The session's token; 0 when there is none."""
        return self._session.token if self._session else 0

    @property
    def is_live(self) -> bool:
        """There is a session, and its lease is not over."""
        if self._session is None:
            return False
        return self.clock.monotonic() < self.until or self._is_kept()

    def time_left(self) -> float:
        """Seconds until the lease is over, or LeaseLostError."""
        self._require()
        return self.until - self.clock.monotonic()

    def engine_time(self, instant: float) -> int:
        """A local monotonic instant on the engine's clock."""
        return self._offset + int(instant * SECOND)

    async def open(self) -> None:
        """Take a new lease, however long that takes; LeaseLostError when leaving meanwhile."""
        self._tell(None)
        self.number = 0
        self.until = NEVER
        who, sent = self._identity, 0.0

        async def call() -> Session:
            nonlocal sent
            sent = self.clock.monotonic()
            length = int(self._lease * SECOND)
            return await self._engine.open_session(
                worker=who.worker, queues=who.queues, types=who.types, lease=length
            )

        self._tell(await self._insist("open_session", call, is_urgent=False))
        self.until = self._end(sent)
        self.answered = self.fed = self.clock.monotonic()
        log.info("lease acquired", extra={"worker": who.worker, "token": self.token})

    async def exchange(
        self,
        *,
        started: Sequence[Reference],
        progress: Sequence[Report],
        settlements: Sequence[Settlement],
        want: int,
        queues: Sequence[str] | None,
    ) -> Exchanged:
        """The session's next exchange, sent again under its number until it is answered."""
        session = self._require()
        number = self.number + 1

        async def call() -> Exchanged:
            sent = self.clock.monotonic()
            answer = await session.exchange(
                number,
                started=started,
                progress=progress,
                settlements=settlements,
                want=want,
                queues=queues,
            )
            self._quickest = min(self._quickest, self.clock.monotonic() - sent)
            return answer

        answer = await self._insist("exchange", call)
        self._heard(answer, number, want)
        return answer

    async def claim_at_wakeup(
        self, seconds: float, *, want: int, queues: Sequence[str] | None
    ) -> Exchanged | None:
        """The session's next exchange when work arrives within `seconds`, unless cancelled.

        Only where `is_prompt`.
        """
        session, number = cast("PromptSession", self._require()), self.number + 1
        try:
            async with Deadline(seconds + self._lease / 6, at_most=seconds + self._lease):
                answer = await session.claim_at_wakeup(
                    number, want=want, queues=queues, seconds=seconds
                )
        except _UNANSWERED:
            # It may have been applied: only the same again tells.
            return await self.exchange(
                started=(), progress=(), settlements=(), want=want, queues=queues
            )
        if answer is not None:
            self._heard(answer, number, want)
        return answer

    def cancel_wait(self) -> None:
        """Let `claim_at_wakeup` return, unless its exchange has begun."""
        if self._session is not None:
            cast("PromptSession", self._session).cancel_wait()

    def _heard(self, answer: Exchanged, number: int, want: int) -> None:
        # The answer may have come while this process was stopped, past its lease.
        self._require()
        self.number = number
        self.answered = now = self.clock.monotonic()
        is_held_back = answer.is_paused or answer.look_in is not None
        if answer.claims or not want or is_held_back:
            self.fed = now
        self._offset = answer.now - int(now * SECOND)
        self.stats.exchanges += 1

    async def renew(self, held: Sequence[Reference]) -> Renewed:
        """One renewal, which raises what the engine raises, TimeoutError included."""
        session = self._require()
        sent = self.clock.monotonic()
        async with self._deadline(self._lease / 6):
            answer = await session.renew(number=self.number, held=held)
        if session is not self._session or sent >= self.until:
            raise LeaseLostError(session.token)
        self.until = max(self.until, self._end(sent))
        self.shares = answer.shares
        return answer

    def transaction(
        self, reference: Reference, started: float
    ) -> AbstractAsyncContextManager[Completion]:
        """A transaction that ends a running job; ConfigError if the engine has none."""
        session = self._require()
        if not self._engine.traits.transactional_completion:
            raise ConfigError(
                f"{self._engine.url} cannot end a job in its handler's transaction; "
                "PostgreSQL can, and a SQLite file"
            )
        session = cast("TransactionalSession", session)
        return session.transaction(reference, started_at=self.engine_time(started))

    async def promote(self, limit: int) -> Promoted:
        """Make due jobs ready, and learn when the next one is due."""
        store = cast("Engine", self._engine)
        return await self._insist(
            "promote", lambda: store.promote(limit=limit), is_urgent=False
        )

    async def history(self, job_id: JobId) -> list[Attempt]:
        """The ended deliveries of a job that is held, oldest first."""
        store = self._beside or cast("StandaloneSession", self._require())
        return await self._insist("attempts", lambda: store.attempts(job_id), is_urgent=False)

    async def has_waiting_jobs(self) -> bool:
        """Whether ready jobs of its queues and types wait longer than a claim takes."""
        if self._beside is None:
            return await cast("StandaloneSession", self._require()).has_waiting_jobs()
        who = self._identity
        return await has_waiting_jobs(self._beside, who.queues, who.types)

    async def wait(self, seconds: float) -> None:
        """Return when work may have arrived; a wait that fails lasts its whole time."""
        session = self._require()
        try:
            async with Deadline(seconds + _CALL):
                await session.wait(seconds)
        except (EngineError, LeaseLostError, TimeoutError):
            await asyncio.sleep(seconds)

    async def wait_for_cancel(self, seconds: float) -> None:
        """Return when a job may have to be cancelled, after `seconds` at the latest."""
        session = self._require()
        try:
            async with Deadline(seconds + _CALL):
                await session.wait(seconds, until="cancel")
        except (EngineError, LeaseLostError, TimeoutError):
            # Exchanges tell too; they are not far apart while anything runs.
            await asyncio.sleep(_LONGEST_PAUSE)

    async def end_lost(
        self, token: int, decide: Callable[[list[Held]], list[Settlement]]
    ) -> list[Held]:
        """End a session that this worker has lost; what it still held and `decide` settled.

        Nothing where it has ended already. The store fences it: what another worker holds by
        now is not this session's any more.
        """
        held = await self._insist("held", lambda: self._engine.held(token))
        if held is None:
            return []
        settlements = decide(held)
        await self._insist("end_session", lambda: self._engine.end_session(token, settlements))
        return held

    async def close(self) -> None:
        """Give back what is still held, if the engine can be reached; the lease ends anyway."""
        session, self._session = self._session, None
        seconds = min(max(_CLOSE, _CLOSE_TRIPS * self._quickest), _LONGEST_CLOSE)
        if session is not None:
            with suppress(EngineError, LeaseLostError, TimeoutError):
                async with Deadline(seconds, at_most=_LONGEST_CLOSE):
                    await session.close()
                # Only now: what could not be given back is left for the keeper.
                self._tell(None)

    def lose(self, token: int) -> bool:
        """The session with this token is gone; False when there is none or another by now."""
        if self._session is None or token != self._session.token:
            return False
        self._tell(None)
        self.stats.lost_leases += 1
        log.error("lease lost", extra={"token": token, "worker": self._identity.worker})
        return True

    def _require(self) -> Session:
        if self._session is None or not self.is_live:
            raise LeaseLostError(self.token)
        return self._session

    def _tell(self, session: Session | None) -> None:
        self._session = session
        if self.record is not None:
            self.record.token = self.token

    def _end(self, sent: float) -> float:
        """When a lease ends that was renewed by a call sent then."""
        return sent + self._lease - min(_MARGIN, self._lease / 5)

    def _is_kept(self) -> bool:
        """Whether the keeper renewed the lease while this process was too busy to."""
        if self.record is None:
            return False
        self.until = max(self.until, self._end(self.record.renewed(self.token)))
        return self.clock.monotonic() < self.until

    def _is_time_left(self, now: float) -> bool:
        has_lease = now < self.until or self._is_kept()
        return has_lease and now < self.leave_at

    def _deadline(self, seconds: float) -> Deadline:
        """For a call that has `seconds`, and in no case longer than the worker may act."""
        most = self._time_at_most()
        return Deadline(min(seconds, most), at_most=most)

    def _time_at_most(self) -> float:
        now = self.clock.monotonic()
        return max(min(self.until, self.leave_at) - now, 0.0)

    async def _insist(
        self, name: str, call: Callable[[], Awaitable[T]], *, is_urgent: bool = True
    ) -> T:
        """What the call returns, sent again until it is answered or the lease is over.

        An urgent one has a sixth of the lease: if it hangs it must not use up all the time
        that there is for trying again.
        """
        pause, patience = _FIRST_PAUSE, self._lease / 6
        if not is_urgent:
            patience = max(patience, _CALL)
        while self._is_time_left(self.clock.monotonic()):
            try:
                async with self._deadline(patience):
                    return await call()
            except (EngineBusyError, EngineUnavailableError, TimeoutError) as error:
                log.warning(
                    "engine call failed",
                    extra={"call": name, "error": str(error) or "no answer", "retry_in": pause},
                )
                self.stats.resent += 1
                if isinstance(error, TimeoutError) and not is_urgent:
                    patience = min(patience * 2, _LONGEST_CALL)
            except ExchangeOrderError as error:
                # The store went back to an earlier moment: an older copy was put back.
                raise LeaseLostError(self.token) from error
            left = min(self.until, self.leave_at) - self.clock.monotonic()
            await asyncio.sleep(min(pause * self._rng.uniform(0.5, 1.5), max(left, 0.0)))
            pause = min(pause * 2, _LONGEST_PAUSE)
        raise LeaseLostError(self.token)
