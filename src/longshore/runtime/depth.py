"""Backpressure: a queue that is too deep takes no more, by a count at most a second old."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Protocol

from longshore.core.job import Job, JobId, NewJob
from longshore.errors import JobNotFoundError, QueueFullError

__all__ = ["Depth", "Depths", "Source"]

_AGE = 1.0
"""Seconds that a count is good for."""


@dataclass(slots=True)
class Depth:
    """A queue with a maximum."""

    most: int
    jobs: int
    """That wait, as far as this process knows."""


class Source(Protocol):
    """What is asked of an engine."""

    async def depths(self) -> dict[str, Depth]:
        """The queues that have a maximum."""
        ...

    async def get(self, job_id: JobId) -> Job:
        """The job, or JobNotFoundError."""
        ...


class Depths:
    """What one process knows of queues that must not get too deep.

    A call is refused whole when one of its queues is at its maximum; what is accepted counts at
    once. So a queue gets deeper than it may by the last batch of each process, and by what
    others submit within a second.
    """

    def __init__(self, source: "Source") -> None:
        self._source = source
        self._queues: dict[str, Depth] = {}
        self._until = 0.0

    async def admit(self, jobs: Sequence[NewJob]) -> None:
        """Return if the jobs may be submitted, else QueueFullError."""
        if monotonic() >= self._until:
            await self._renew()
        if not self._queues:
            return
        wanted = Counter(job.queue for job in jobs if job.queue in self._queues)
        for queue in wanted:
            it = self._queues[queue]
            if it.jobs >= it.most:
                await self._refuse_news(queue, jobs)
        for queue, count in wanted.items():
            self._queues[queue].jobs += count

    def forget(self) -> None:
        """Look anew: somebody changed what may be."""
        self._until = 0.0

    async def _refuse_news(self, queue: str, jobs: Sequence[NewJob]) -> None:
        """A call that was accepted whole, and whose answer was lost, is answered again."""
        try:
            await self._source.get(jobs[0].id)
        except JobNotFoundError:
            raise QueueFullError(queue, retry_after=_AGE) from None

    async def _renew(self) -> None:
        # Whoever comes while we look goes by the last count.
        self._until = monotonic() + _AGE
        try:
            self._queues = await self._source.depths()
        except BaseException:
            self._until = 0.0
            raise
