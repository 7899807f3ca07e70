"""Engines that are wrong on purpose, each in one way, to show that the checkers would notice.

All are changes of the model. The simulator has to find every one of them; a checker that finds
none of these proves nothing by finding nothing elsewhere.
"""

import asyncio
from collections.abc import Sequence
from contextvars import Context
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from longshore.contract import Exchanged, Reference, Renewed
from longshore.core.consumer import Cursor
from longshore.core.event import EventBatch, Name
from longshore.core.job import Job, JobId, NewJob, Settlement, Submitted
from longshore.core.state import JobChange, State, Verb
from longshore.errors import LeaseLostError
from longshore.runtime.clock import Clock
from longshore.testing.model.producer import accept
from longshore.testing.model.session import ModelSession
from longshore.testing.model.store import Lease, Row
from longshore_lab.sim.engines import Opener
from longshore_lab.sim.liars import (
    Changed,
    DeathIsSuccess,
    HalfStored,
    Mixed,
    OldNumbers,
    SuccessForgotten,
    Untold,
)

__all__ = ["MUTANTS", "Mutant"]

_SECOND = 1_000_000
_WAITING = frozenset({State.READY, State.SCHEDULED})


class _Unfenced(ModelSession):
    """A lease that is over still settles, whoever holds the job."""

    def _settles(self, row: Row) -> bool:
        """Whatever state it is in."""
        if row.job.state is not State.RUNNING:
            row.change(state=State.RUNNING)
        return True

    def _live_lease(self) -> Lease:
        return self._store.leases.setdefault(self.token, self._lease)

    async def renew(self, **arguments: Any) -> Renewed:
        ModelSession._live_lease(self)
        return await super().renew(**arguments)

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
            if row is not None and self._settles(row):
                self._store.settle(row, one)
            else:
                refused.append((one.handle, one.delivery))
        super()._apply(number, started, progress, ())
        self._lease.refused = refused


class _NoTokenCheck(Changed):
    session = _Unfenced


class _StatusOnlySession(_Unfenced):
    def _settles(self, row: Row) -> bool:
        return row.job.state is State.RUNNING


class _StatusOnly(Changed):
    """A lease that is over still settles what runs, whoever holds it."""

    session = _StatusOnlySession


class _TheirClocks(Changed):
    """A scheduler's own clock decides when leases are over."""

    def _is_over(self, lease: Lease, grace: int) -> bool:
        return lease.expires_at - lease.length + grace <= self._store.now()


class _SameDelivery(Changed):
    """What is reclaimed goes back, but neither its session ends nor its next claim is new."""

    async def end_session(
        self, token: int, settlements: Sequence[Settlement], *, grace: int | None = None
    ) -> int:
        lease = self._store.leases.get(token)
        if lease is None or not self._is_over(lease, grace or 0):
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


class _ChargedAtClaim(Changed):
    """A claim counts as a failure before anything ran."""

    session = _ChargedAtClaimSession


class _AnsweredEarly(Changed):
    """Says yes before it has stored anything, and sometimes never does."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__(clock)
        self._calls = 0

    async def submit(
        self,
        jobs: Sequence[NewJob],
        *,
        independent: bool = False,
        max_wait: float | None = None,
    ) -> list[Submitted]:
        self._calls += 1
        if self._calls % 7 == 0:
            return [Submitted(job.id) for job in jobs]
        return await super().submit(jobs, independent=independent, max_wait=max_wait)


class _FiredAgain(Changed):
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


class _EventsLost(Changed):
    """Now and then a transition is not told."""

    session = _EventsLostSession


class _NotRenewedSession(ModelSession):
    async def renew(self, **arguments: Any) -> Renewed:
        before = self._lease.expires_at
        renewed = await super().renew(**arguments)
        self._lease.expires_at = before
        return renewed


class _NotRenewed(Changed):
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


class _ReleasedByAnyone(Changed):
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


class _OneTooMany(Changed):
    """The last failure is not the last."""

    session = _OneTooManySession


class _CheckedThenStored(Changed):
    """Between the look for a key and the storing of its job others get in."""

    async def submit(
        self,
        jobs: Sequence[NewJob],
        *,
        independent: bool = False,
        max_wait: float | None = None,
    ) -> list[Submitted]:
        seen = dict(self._store.keys)
        await asyncio.sleep(0.5)
        now = dict(self._store.keys)
        self._store.keys = seen
        answers = await super().submit(jobs, independent=independent, max_wait=max_wait)
        self._store.keys = {**now, **self._store.keys}
        return answers


class _AnswerForgottenSession(ModelSession):
    async def exchange(self, number: int, **arguments: Any) -> Exchanged:
        is_known = number == self._lease.number
        answer = await super().exchange(number, **arguments)
        return replace(answer, claims=[]) if is_known else answer

    async def renew(self, **arguments: Any) -> Renewed:
        return await super().renew(number=arguments.get("number", 0))


class _AnswerForgotten(Changed):
    """An exchange that is sent again hears nothing of what it was given before."""

    session = _AnswerForgottenSession


class _LateBatches(Changed):
    """Some batches become visible after later ones, and a cursor does not look back."""

    async def events(
        self, *, after: int, limit: int, cursor: Cursor | None = None
    ) -> list[EventBatch]:
        batches = await super().events(after=after, limit=limit, cursor=cursor)
        if cursor is None:
            return batches
        late = self._store.now() - _SECOND
        return [one for one in batches if one.position % 5 or one.at < late]


class _RevivedSession(ModelSession):
    async def renew(self, **arguments: Any) -> Renewed:
        lease = self._store.leases.get(self.token)
        if lease is not None:
            lease.expires_at = max(lease.expires_at, self._store.now() + 1)
        return await super().renew(**arguments)


class _Revived(Changed):
    """A renewal gives a lease back that was over."""

    session = _RevivedSession


class _CancelledLater(Changed):
    """A cancel of what waits is answered first and carried out later, if it still waits."""

    async def change(
        self, change: JobChange, job_ids: Sequence[JobId], **more: Any
    ) -> list[Job]:
        rows = [self._store.row(one, more.get("tenant")) for one in job_ids]
        if change != "cancel" or not all(row.job.state in _WAITING for row in rows):
            return await super().change(change, job_ids, **more)
        asyncio.get_running_loop().call_later(0.3, self._carry_out, rows, context=Context())
        return [replace(row.job, state=State.CANCELLED) for row in rows]

    def _carry_out(self, rows: Sequence[Row]) -> None:
        for row in rows:
            if row.job.state in _WAITING:
                row.change(state=State.CANCELLED, finished_at=self._store.now())
                self._store.emit(Name.CANCELLED, row.job)
        self._store.commit()


@dataclass(frozen=True, slots=True)
class Mutant:
    """An engine with a fault, and the checkers of which one has to find it."""

    opener: Opener
    finders: frozenset[str]


def _found_by(opener: Opener, *finders: str) -> Mutant:
    return Mutant(opener, frozenset(finders))


MUTANTS: dict[str, Mutant] = {
    "no token check": _found_by(_NoTokenCheck, "doubles", "events", "stale"),
    "status only": _found_by(_StatusOnly, "linear", "stale"),
    "their clocks": _found_by(_TheirClocks, "overlaps"),
    "same delivery": _found_by(_SameDelivery, "stale"),
    "charged at claim": _found_by(_ChargedAtClaim, "attempts"),
    "answered early": _found_by(_AnsweredEarly, "lost"),
    "fired again": _found_by(_FiredAgain, "beats"),
    "late batches": _found_by(_LateBatches, "relayed"),
    "revived": _found_by(_Revived, "revived"),
    "released by anyone": _found_by(_ReleasedByAnyone, "overlaps", "refused"),
    "one too many": _found_by(_OneTooMany, "attempts"),
    "checked, then stored": _found_by(_CheckedThenStored, "repeats"),
    "events lost": _found_by(_EventsLost, "events"),
    "not renewed": _found_by(_NotRenewed, "unfinished"),
    "answer forgotten": _found_by(_AnswerForgotten, "beats", "unfinished"),
    "cancelled later": _found_by(_CancelledLater, "linear"),
    "old numbers": _found_by(OldNumbers, "refused", "reruns"),
    "half stored": _found_by(HalfStored, "halves"),
    "arguments mixed": _found_by(Mixed, "ghosts"),
    "success forgotten": _found_by(SuccessForgotten, "reruns"),
    "death is success": _found_by(DeathIsSuccess, "outcomes"),
    "loss untold": _found_by(Untold, "lingering"),
}
"""By the name they have on the command line. The first twelve are the classics."""
