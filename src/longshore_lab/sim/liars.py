"""More engines that are wrong on purpose: these say one thing and do another."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from longshore.contract import Exchanged, Lapsed, Reference, Renewed, Session
from longshore.core.job import NewJob, Settlement, Submitted
from longshore.core.state import Verb
from longshore.errors import EngineUnavailableError
from longshore.runtime.clock import Clock
from longshore.testing.model import ModelEngine
from longshore.testing.model.session import ModelSession

__all__ = [
    "Changed",
    "DeathIsSuccess",
    "HalfStored",
    "Mixed",
    "OldNumbers",
    "SuccessForgotten",
    "Untold",
]


class Changed(ModelEngine):
    """The model, with sessions of another kind."""

    session: type[ModelSession] = ModelSession

    async def open_session(self, **arguments: Any) -> Session:
        """See `longshore.contract.Engine`."""
        opened = await super().open_session(**arguments)
        return self.session(self._store, self._store.leases[opened.token])


class _OldNumbersSession(ModelSession):
    async def exchange(self, number: int, **arguments: Any) -> Exchanged:
        if 0 < number < self._lease.number:
            self._lease.number = number - 1
        return await super().exchange(number, **arguments)


class OldNumbers(Changed):
    """An exchange that comes again after later ones is taken for the next."""

    session = _OldNumbersSession


class HalfStored(Changed):
    """Now and then a submit breaks off in the middle, and what it has stored stays."""

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
        """See `longshore.contract.Producer`."""
        self._calls += 1
        if self._calls % 3 or len(jobs) < 2:
            return await super().submit(jobs, independent=independent, max_wait=max_wait)
        await super().submit(jobs[:1], independent=independent, max_wait=max_wait)
        raise EngineUnavailableError("it broke off")


class Mixed(Changed):
    """Jobs of one call get each other's arguments."""

    async def submit(
        self,
        jobs: Sequence[NewJob],
        *,
        independent: bool = False,
        max_wait: float | None = None,
    ) -> list[Submitted]:
        """See `longshore.contract.Producer`."""
        payloads = [job.payload for job in jobs]
        mixed = [
            replace(job, payload=payload)
            for job, payload in zip(jobs, payloads[1:] + payloads[:1], strict=True)
        ]
        return await super().submit(mixed, independent=independent, max_wait=max_wait)


class _ChangedSession(ModelSession):
    """Takes one verb of a settlement for another."""

    verb, into = Verb.SUCCEED, Verb.RELEASE
    most = 1
    """Deliveries of a job in which it does: there has to be an end to it."""

    def _apply(
        self,
        number: int,
        started: Sequence[Reference],
        progress: Sequence[Any],
        settlements: Sequence[Settlement],
    ) -> None:
        changed = [
            replace(one, verb=self.into)
            if one.verb is self.verb and one.delivery <= self.most
            else one
            for one in settlements
        ]
        super()._apply(number, started, progress, changed)


class SuccessForgotten(Changed):
    """A job's first success is accepted, and the job is handed out again."""

    session = _ChangedSession


class _DeathIsSuccessSession(_ChangedSession):
    verb, into = Verb.KILL, Verb.SUCCEED
    most = 1_000


class DeathIsSuccess(Changed):
    """What is dead counts as succeeded."""

    session = _DeathIsSuccessSession


class _UntoldSession(ModelSession):
    async def renew(self, **arguments: Any) -> Renewed:
        return replace(await super().renew(**arguments), lost=[])


class Untold(Changed):
    """What is held for long goes to another, and whoever renews it never hears of that."""

    session = _UntoldSession

    async def expired_sessions(self, *, grace: int, limit: int) -> list[Lapsed]:
        """See `longshore.contract.Steward`."""
        for row in self._store.rows.values():
            lease = self._store.leases.get(row.token)
            # Once for a job, or there is no end to it.
            began = row.job.started_at if row.job.delivery == 1 else None
            if lease and began and began + lease.length // 2 < self._store.now():
                self._store.release([row])
        self._store.commit()
        return await super().expired_sessions(grace=grace, limit=limit)
