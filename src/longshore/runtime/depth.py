"""Backpressure: a queue that is too deep takes no more, by a count at most a second old."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Protocol

from longshore.core.job import Job, JobId, NewJob
from longshore.errors import JobNotFoundError, QueueFullError

__all__ = ["Depth", "Depths", "Source"]

_AGE = 1.0
"""Seconds that a count is good for."""
_REST = 10
"""How many times as long as it took to count: a million jobs by tenant take a while."""
_LONGEST_AGE = 30.0


@dataclass(slots=True)
class Depth:
    """How many jobs wait where there is a maximum: in a queue, or in it of one tenant."""

    queue: str
    tenant: str | None
    """None: of all together; empty: of any that is not named."""
    most: int
    jobs: int
    """That wait, as far as this process knows."""


class Source(Protocol):
    """What is asked of an engine."""

    async def depths(self) -> list[Depth]:
        """Where there is a maximum."""
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
        self._known: dict[tuple[str, str | None], Depth] = {}
        self._queues: set[str] = set()
        self._age = _AGE
        self._until = 0.0

    async def admit(self, jobs: Sequence[NewJob]) -> None:
        """Return if the jobs may be submitted, else QueueFullError."""
        if self.is_stale:
            await self._renew()
        if self._queues:
            if refusal := self.refusal(jobs):
                await self._refuse_news(refusal, jobs)
            self.add(jobs)

    @property
    def is_idle(self) -> bool:
        """Whether there is a maximum nowhere, by a count that is not too old."""
        return not self._queues and monotonic() < self._until

    @property
    def is_stale(self) -> bool:
        """Whether the count is too old to go by."""
        return monotonic() >= self._until

    def look(self) -> float:
        """Somebody counts from now on. Whoever comes meanwhile goes by the last count."""
        now = monotonic()
        self._until = now + _AGE
        return now

    def learn(self, found: Iterable[Depth], *, since: float) -> None:
        """What was counted, by who began to look then."""
        self._known = {(it.queue, it.tenant): it for it in found}
        self._queues = {queue for queue, _ in self._known}
        now = monotonic()
        self._age = min(max(_AGE, _REST * (now - since)), _LONGEST_AGE)
        self._until = now + self._age

    def refusal(self, jobs: Sequence[NewJob]) -> QueueFullError | None:
        """Why the jobs may not be submitted."""
        for it, _ in self._concerned(jobs):
            if it.jobs >= it.most:
                return QueueFullError(it.queue, self._age, tenant=it.tenant)
        return None

    def add(self, jobs: Sequence[NewJob]) -> None:
        """These are submitted."""
        for it, count in self._concerned(jobs):
            it.jobs += count

    def forget(self) -> None:
        """Look anew: somebody changed what may be."""
        self._until = 0.0

    def _concerned(self, jobs: Sequence[NewJob]) -> Iterator[tuple[Depth, int]]:
        known = self._known
        wanted = Counter((job.queue, job.tenant) for job in jobs if job.queue in self._queues)
        for (queue, tenant), count in wanted.items():
            if whole := known.get((queue, None)):
                yield whole, count
            if unnamed := known.get((queue, "")):
                own = Depth(queue, tenant, unnamed.most, 0)
                yield known.setdefault((queue, tenant), own), count

    async def _refuse_news(self, refusal: QueueFullError, jobs: Sequence[NewJob]) -> None:
        """A call that was accepted whole, and whose answer was lost, is answered again."""
        try:
            await self._source.get(jobs[0].id)
        except JobNotFoundError:
            raise refusal from None

    async def _renew(self) -> None:
        since = self.look()
        try:
            found = await self._source.depths()
        except BaseException:
            self.forget()
            raise
        self.learn(found, since=since)
