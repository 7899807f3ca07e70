"""Engines that are wrong on purpose, each in one way, to show that the checkers would notice.

All are changes of the model. The simulator has to find every one of them; a checker that finds
none of these proves nothing by finding nothing elsewhere.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from longshore.core.job import NewJob, Settlement, Submitted
from longshore.core.state import State, Verb
from longshore.engine import Exchanged, Reference, Renewed, Session
from longshore.errors import LeaseLostError
from longshore.runtime.clock import Clock
from longshore.testing.model import ModelEngine
from longshore.testing.model.producer import accept
from longshore.testing.model.session import ModelSession
from longshore.testing.model.store import Lease, Row
from longshore_lab.sim.engines import Opener

__all__ = ["MUTANTS"]


class _Mutant(ModelEngine):
    session: type[ModelSession] = ModelSession

    async def open_session(self, **arguments: Any) -> Session:
        opened = await super().open_session(**arguments)
        return self.session(self._store, self._store.leases[opened.token])


class _Unfenced(ModelSession):
    """A lease that is over still settles, and whoever holds the job is not asked."""

    def _live_lease(self) -> Lease:
        return self._store.leases.setdefault(self.token, self._lease)

    def _apply(
        self,
        number: int,
        started: Sequence[Reference],
        progress: Sequence[Any],
        settlements: Sequence[Settlement],
    ) -> None:
        rows = {row.handle: row for row in self._store.rows.values()}
        refused: list[Reference] = []
        for one in settlements:
            row = rows.get(one.handle)
            if row is not None and row.job.state is State.RUNNING:
                self._store.settle(row, one)
            else:
                refused.append((one.handle, one.delivery))
        super()._apply(number, started, progress, ())
        self._lease.refused = refused


class _NoFence(_Mutant):
    session = _Unfenced


class _TheirClocks(_Mutant):
    """A scheduler's own clock decides when leases are over."""

    def _is_over(self, lease: Lease, grace: int) -> bool:
        return lease.expires_at - lease.length + grace <= self._store.now()


class _SameDelivery(_Mutant):
    """What is reclaimed goes back, but neither its session ends nor its next claim is new."""

    async def reclaim(
        self, token: int, settlements: Sequence[Settlement], *, grace: int
    ) -> int:
        lease = self._store.leases.get(token)
        if lease is None or not self._is_over(lease, grace):
            return 0
        rows = self._store.held_by(token)
        for row in rows:
            row.token = row.number = 0
            row.change(state=State.READY, delivery=row.job.delivery - 1)
        lease.expires_at = self._store.now() + lease.length
        self._store.commit()
        return len(rows)


class _ChargedAtClaimSession(ModelSession):
    def _take(self, row: Row, number: int) -> None:
        super()._take(row, number)
        row.change(failures=row.job.failures + (row.job.delivery > 1))


class _ChargedAtClaim(_Mutant):
    """A claim counts as a failure before anything ran."""

    session = _ChargedAtClaimSession


class _AnsweredEarly(_Mutant):
    """Says yes before it has stored anything, and sometimes never does."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__(clock)
        self._calls = 0

    async def submit(self, jobs: Sequence[NewJob], *, apart: bool = False) -> list[Submitted]:
        self._calls += 1
        if self._calls % 7 == 0:
            return [Submitted(job.id) for job in jobs]
        return await super().submit(jobs, apart=apart)


class _FiredAgain(_Mutant):
    """Nobody asks whether a due time was taken already."""

    async def fire(self, firing: Any) -> list[Submitted]:
        self._store.fired.clear()
        jobs = [shot.job for shot in firing.shots if shot.job is not None]
        answers = [accept(self._store, job) for job in jobs]
        await asyncio.sleep(0.01)
        await super().fire(firing)
        return answers


class _EventsLostSession(ModelSession):
    def _start(self, started: Sequence[Reference]) -> None:
        for row in self._held():
            if row.reference in started and row.job.started_at is None:
                row.change(started_at=self._store.now(), attempt=row.job.attempt + 1)


class _EventsLost(_Mutant):
    """Now and then a transition is not told."""

    session = _EventsLostSession


class _NotRenewedSession(ModelSession):
    async def renew(self, **arguments: Any) -> Renewed:
        before = self._lease.expires_at
        renewed = await super().renew(**arguments)
        self._lease.expires_at = before
        return renewed


class _NotRenewed(_Mutant):
    """A renewal is answered, and changes nothing."""

    session = _NotRenewedSession


class _ReleasedByAnyoneSession(ModelSession):
    def _once(self) -> set[int]:
        store: Any = self._store
        return store.__dict__.setdefault("_once", {}).setdefault(self.token, set())

    def _take(self, row: Row, number: int) -> None:
        super()._take(row, number)
        self._once().add(row.handle)

    def _live_lease(self) -> Lease:
        try:
            return super()._live_lease()
        except LeaseLostError:
            mine = self._once()
            rows = self._store.rows.values()
            self._store.release([row for row in rows if row.handle in mine and row.token])
            mine.clear()
            self._store.commit()
            raise


class _ReleasedByAnyone(_Mutant):
    """A session gives back jobs that are no longer its own."""

    session = _ReleasedByAnyoneSession


class _OneTooManySession(ModelSession):
    def _apply(
        self,
        number: int,
        started: Sequence[Reference],
        progress: Sequence[Any],
        settlements: Sequence[Settlement],
    ) -> None:
        failures = {
            row.reference: (row.job.failures, row.job.max_attempts) for row in self._held()
        }
        changed = [self._once_more(one, failures) for one in settlements]
        super()._apply(number, started, progress, changed)

    def _once_more(
        self, one: Settlement, failures: dict[Reference, tuple[int, int]]
    ) -> Settlement:
        had, most = failures.get((one.handle, one.delivery), (0, 0))
        if one.verb is not Verb.KILL or had >= most:
            return one
        return Settlement(
            handle=one.handle,
            delivery=one.delivery,
            verb=Verb.RETRY,
            started_at=one.started_at,
            finished_at=one.finished_at,
            failure=one.failure,
            charge=one.charge,
        )


class _OneTooMany(_Mutant):
    """The last failure is not the last."""

    session = _OneTooManySession


class _CheckedThenStored(_Mutant):
    """Between the look for a key and the storing of its job others get in."""

    async def submit(self, jobs: Sequence[NewJob], *, apart: bool = False) -> list[Submitted]:
        seen = dict(self._store.keys)
        await asyncio.sleep(0.5)
        now = dict(self._store.keys)
        self._store.keys = seen
        answers = await super().submit(jobs, apart=apart)
        self._store.keys = {**now, **self._store.keys}
        return answers


class _AnswerForgottenSession(ModelSession):
    async def exchange(self, number: int, **arguments: Any) -> Exchanged:
        is_known = number == self._lease.number
        answer = await super().exchange(number, **arguments)
        return replace(answer, claims=[]) if is_known else answer

    async def renew(self, **arguments: Any) -> Renewed:
        return await super().renew(number=arguments.get("number", 0))


class _AnswerForgotten(_Mutant):
    """An exchange that is sent again hears nothing of what it was given before."""

    session = _AnswerForgottenSession


MUTANTS: dict[str, Opener] = {
    "no fence": _NoFence,
    "their clocks": _TheirClocks,
    "same delivery": _SameDelivery,
    "charged at claim": _ChargedAtClaim,
    "answered early": _AnsweredEarly,
    "fired again": _FiredAgain,
    "events lost": _EventsLost,
    "not renewed": _NotRenewed,
    "released by anyone": _ReleasedByAnyone,
    "one too many": _OneTooMany,
    "checked, then stored": _CheckedThenStored,
    "answer forgotten": _AnswerForgotten,
}
"""By the name they have on the command line."""
