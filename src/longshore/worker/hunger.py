"""Notices that jobs wait which a worker serves and asks for, and does not get."""

from collections.abc import Sequence
from typing import Protocol

from longshore.core.job import Job
from longshore.core.state import State
from longshore.core.view import JobFilter, Page, Pause, QueueCounts
from longshore.errors import EngineBusyError, EngineUnavailableError
from longshore.runtime.clock import SECOND
from longshore.runtime.deadline import Deadline
from longshore.worker.standing import Identity, Standing

__all__ = ["Hunger", "Pantry"]

_CALL = 5.0
_GLANCE = 100
"""Jobs of a queue that are looked at."""
_ASIDE = 5 * SECOND
"""A job that became ready less long ago may be on its way to someone."""


class Pantry(Protocol):
    """What it takes of an engine to see which jobs wait."""

    async def now(self) -> int:
        """The engine's clock."""
        ...

    async def counts(self, *, may_estimate: bool) -> list[QueueCounts]:
        """Every queue."""
        ...

    async def pauses(self) -> list[Pause]:
        """Every pause that stands."""
        ...

    async def find(self, which: JobFilter, *, limit: int) -> Page:
        """Some jobs, newest first."""
        ...


class Hunger:
    """Compares what a worker gets with what there is; asks only when it gets nothing.

    An idle worker is not hungry: there is nothing to have. One whose rooms are full is not
    either, however much there is.
    """

    def __init__(
        self, engine: Pantry, identity: Identity, standing: Standing, *, every: float
    ) -> None:
        self._engine = engine
        self._queues = frozenset(identity.queues)
        self._types = frozenset(identity.types)
        self._standing = standing
        self._every = every
        self._looked = 0.0
        self._seen: float | None = None
        """Since when every look has found something."""

    @property
    def since(self) -> float | None:
        """Since when jobs wait that the worker should have got; None: it is not hungry."""
        seen = self._seen
        return None if seen is None or self._standing.fed >= seen else seen

    async def tick(self) -> float:
        """Look, unless the worker has had all it wanted since the last time."""
        now, standing = self._standing.clock.monotonic(), self._standing
        is_fed = standing.fed >= self._looked or not standing.is_live
        self._looked = now
        if is_fed or not await self._is_food_there():
            self._seen = None
        elif self._seen is None:
            self._seen = now
        return self._every

    async def _is_food_there(self) -> bool:
        try:
            async with Deadline(_CALL):
                waiting = [
                    one.queue
                    for one in await self._engine.counts(may_estimate=True)
                    if one.queue in self._queues and one.ready > one.parked
                ]
                return bool(waiting) and await self._is_any_ours(waiting)
        except (EngineBusyError, EngineUnavailableError, TimeoutError):
            return False  # that it cannot be reached is noticed elsewhere

    async def _is_any_ours(self, queues: Sequence[str]) -> bool:
        pauses, now = await self._engine.pauses(), await self._engine.now()
        for queue in queues:
            which = JobFilter(queue=queue, state=State.READY)
            page = await self._engine.find(which, limit=_GLANCE)
            ours = [job for job in page.jobs if self._is_ours(job, pauses)]
            if any(job.run_at <= now - _ASIDE for job in ours):
                return True
            if ours and page.cursor is not None:
                return True  # so many have come that the old ones are out of sight
        return False

    def _is_ours(self, job: Job, pauses: Sequence[Pause]) -> bool:
        if job.type not in self._types or job.parked is not None:
            return False
        return not any(
            one.queue in (None, job.queue) and one.type in (None, job.type) for one in pauses
        )
