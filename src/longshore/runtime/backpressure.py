"""Backpressure: a queue that is too deep takes no more, by a count at most a second old."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from time import monotonic
from typing import Protocol

from longshore.core.job import JobId, NewJob, Submitted, Verdict
from longshore.errors import QueueFullError

__all__ = ["Crowd", "Depth", "Depths", "Source", "told_apart"]

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

    async def known(self, jobs: Sequence[NewJob]) -> Set[JobId]:
        """Those of the jobs that stand already, by their ids or their idempotency keys."""
        ...


Crowd = list[tuple[NewJob, QueueFullError]]
"""Jobs that come to where there is no room, and how that is said."""


class Depths:
    """What one process knows of queues that must not get too deep.

    A call is refused whole when one of its queues is at its maximum, unless its jobs come
    apart; what is accepted counts at once. So a queue gets deeper than it may by the last
    batch of each process, and by what others submit within a second. What stands already is
    let in, to be answered again: its first answer may be lost.
    """

    def __init__(self, source: "Source", monotonic: Callable[[], float] = monotonic) -> None:
        self._source = source
        self._monotonic = monotonic
        self._known: dict[tuple[str, str | None], Depth] = {}
        self._queues: set[str] = set()
        self._until = 0.0

    async def admit(self, jobs: Sequence[NewJob], *, apart: bool = False) -> Sequence[NewJob]:
        """The jobs if they may be submitted, else QueueFullError; `apart`, those that may."""
        if self.is_stale:
            await self._renew()
        if not self._queues:
            return jobs
        crowd = self.crowd(jobs)
        known = await self._source.known([job for job, _ in crowd]) if crowd else set[JobId]()
        return self.let_in(jobs, crowd, known, apart=apart)

    @property
    def is_idle(self) -> bool:
        """Whether there is a maximum nowhere, by a count that is not too old."""
        return not self._queues and self._monotonic() < self._until

    @property
    def is_stale(self) -> bool:
        """Whether the count is too old to go by."""
        return self._monotonic() >= self._until

    def look(self) -> float:
        """Somebody counts from now on. Whoever comes meanwhile goes by the last count."""
        now = self._monotonic()
        self._until = now + _AGE
        return now

    def learn(self, found: Iterable[Depth], *, since: float) -> None:
        """What was counted, by who began to look then."""
        self._known = {(it.queue, it.tenant): it for it in found}
        self._queues = {queue for queue, _ in self._known}
        now = self._monotonic()
        self._until = now + min(max(_AGE, _REST * (now - since)), _LONGEST_AGE)

    def crowd(self, jobs: Sequence[NewJob]) -> Crowd:
        """Those of the jobs for which there is no room."""
        full: dict[tuple[str, str], QueueFullError] = {}
        # Before the next count nobody would be let in.
        retry_after = max(_AGE, self._until - self._monotonic())
        for it, place, _ in self._concerned(jobs):
            if it.jobs >= it.most:
                full.setdefault(place, QueueFullError(it.queue, retry_after, tenant=it.tenant))
        if not full:
            return []
        places = [(job, full.get((job.queue, job.tenant))) for job in jobs]
        return [(job, error) for job, error in places if error is not None]

    def let_in(
        self,
        jobs: Sequence[NewJob],
        crowd: Crowd,
        known: Set[JobId],
        *,
        apart: bool = False,
    ) -> Sequence[NewJob]:
        """The jobs without the crowd, but for those of it that are known; see `admit`."""
        refused = {job.id: error for job, error in crowd if job.id not in known}
        if refused and not apart:
            raise next(iter(refused.values()))
        if not crowd:
            self.add(jobs)
            return jobs
        self.add([job for job in jobs if job.id not in refused and job.id not in known])
        return [job for job in jobs if job.id not in refused]

    def add(self, jobs: Sequence[NewJob]) -> None:
        """These are submitted."""
        for it, _, count in self._concerned(jobs):
            it.jobs += count

    def forget(self) -> None:
        """Look anew: somebody changed what may be."""
        self._until = 0.0

    def _concerned(
        self, jobs: Sequence[NewJob]
    ) -> Iterator[tuple[Depth, tuple[str, str], int]]:
        """What is counted, and how many of a queue and tenant would be counted there."""
        known = self._known
        wanted = Counter((job.queue, job.tenant) for job in jobs if job.queue in self._queues)
        for place, count in wanted.items():
            queue, tenant = place
            if whole := known.get((queue, None)):
                yield whole, place, count
            if unnamed := known.get((queue, "")):
                own = Depth(queue, tenant, unnamed.most, 0)
                yield known.setdefault((queue, tenant), own), place, count

    async def _renew(self) -> None:
        since = self.look()
        try:
            found = await self._source.depths()
        except BaseException:
            self.forget()
            raise
        self.learn(found, since=since)


def told_apart(
    jobs: Sequence[NewJob], admitted: Sequence[NewJob], answers: list[Submitted]
) -> list[Submitted]:
    """An answer for each: those that were not let in hear that there is no room."""
    if len(admitted) == len(jobs):
        return answers
    let_in, ahead = {job.id for job in admitted}, iter(answers)
    return [
        next(ahead) if job.id in let_in else Submitted(job.id, Verdict.FULL) for job in jobs
    ]
