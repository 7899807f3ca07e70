"""The queue as dictionaries: a whole engine in plain Python, the oracle of property tests.

Slow on purpose: every question is answered by looking at everything. What a real engine does
with indexes and statements has to come out the same.
"""

from collections.abc import Sequence

from longshore.contract import Session, Traits
from longshore.core.job import JobId
from longshore.errors import LeaseLostError
from longshore.runtime.clock import Clock, SystemClock
from longshore.testing.model.auditing import ModelAudit
from longshore.testing.model.counters import ModelCounters
from longshore.testing.model.jobs import ModelJobs
from longshore.testing.model.keeper import ModelKeeper
from longshore.testing.model.ordering_keys import ModelOrderingKeys
from longshore.testing.model.producer import ModelProducer
from longshore.testing.model.records import ModelRecords
from longshore.testing.model.session import ModelSession
from longshore.testing.model.steward import ModelSteward
from longshore.testing.model.store import Lease, Store

__all__ = ["ModelEngine"]


class ModelEngine(
    ModelProducer,
    ModelKeeper,
    ModelSteward,
    ModelJobs,
    ModelOrderingKeys,
    ModelCounters,
    ModelRecords,
    ModelAudit,
):
    """An engine that keeps every promise but the durable ones."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._store = Store(clock or SystemClock())

    @property
    def traits(self) -> Traits:
        """Nothing outlives this object."""
        return Traits(
            transactional_submit=False,
            transactional_completion=False,
            pushes_wakeups=True,
            claims_at_wakeup=False,
            ordering_keys=True,
            survives_power_loss=False,
            own_clock=False,
            shared_between_processes=False,
        )

    @property
    def url(self) -> str:
        """No other process can reach it."""
        return "model:"

    async def open_session(
        self,
        *,
        worker: str,
        queues: Sequence[str],
        types: Sequence[str],
        lease: int,
        owner: str = "",
    ) -> Session:
        """See `longshore.contract.Engine`."""
        now = self._store.now()
        self._store.last_token += 1
        opened = Lease(
            token=self._store.last_token,
            worker=worker,
            queues=tuple(queues),
            types=tuple(types),
            length=lease,
            opened_at=now,
            renewed_at=now,
            expires_at=now + lease,
            owner=owner,
        )
        self._store.leases[opened.token] = opened
        return ModelSession(self._store, opened)

    async def attach_session(self, token: int) -> Session:
        """See `longshore.contract.Engine`."""
        now = self._store.now()
        known = self._store.leases.get(token)
        if known is None or known.expires_at <= now:
            raise LeaseLostError(token)
        return ModelSession(self._store, known)

    async def owner_of(self, token: int) -> str | None:
        """See `longshore.contract.Engine`."""
        known = self._store.leases.get(token)
        return None if known is None else known.owner

    def prefer(self, job_ids: Sequence[JobId]) -> None:
        """Hand out these first among jobs of the same rank, whose order is free."""
        self._store.preferred = {job_id: place for place, job_id in enumerate(job_ids)}

    def rearrange(self, job_ids: Sequence[JobId]) -> None:
        """Let these jobs, which came in one call, have come in this order."""
        self._store.rearrange(job_ids)

    async def now(self) -> int:
        """See `longshore.contract.Engine`."""
        return self._store.now()

    async def migrate(self, *, max_wait: float = 60.0) -> list[str]:
        """There is no schema."""
        self._store.now()
        return []

    async def ping(self) -> None:
        """See `longshore.contract.Engine`."""
        self._store.now()

    async def close(self) -> None:
        """See `longshore.contract.Engine`."""
        self._store.is_closed = True
