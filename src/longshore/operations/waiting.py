"""Whether jobs wait that a worker should have been given."""

from collections.abc import Collection, Sequence
from typing import Protocol

from longshore.contract import Records
from longshore.core.job import Job
from longshore.core.state import State
from longshore.core.view import JobFilter, Page, Pause, QueueCounts
from longshore.records import pauses
from longshore.runtime.clock import SECOND

__all__ = ["WaitingJobs", "has_waiting_jobs"]

_JOBS_READ = 100
"""Of each queue."""
_CLAIM_TIME = 5 * SECOND
"""A job that became ready less long ago may be on its way to a worker."""


class WaitingJobs(Records, Protocol):
    """The part of an engine that tells which jobs wait."""

    async def now(self) -> int:
        """The engine's clock."""
        ...

    async def counts(self, *, may_estimate: bool) -> list[QueueCounts]:
        """The counts of every queue."""
        ...

    async def find(self, which: JobFilter, *, limit: int) -> Page:
        """Some jobs, newest first."""
        ...


async def has_waiting_jobs(
    engine: WaitingJobs, queues: Collection[str], types: Collection[str]
) -> bool:
    """Whether jobs of these queues and types are ready for longer than a claim takes.

    Jobs that a pause or a limit holds back do not count.
    """
    counts = await engine.counts(may_estimate=True)
    waiting = [one.queue for one in counts if one.queue in queues and one.ready > one.parked]
    if not waiting:
        return False
    paused, now = await pauses.every(engine), await engine.now()
    for queue in waiting:
        page = await engine.find(JobFilter(queue=queue, state=State.READY), limit=_JOBS_READ)
        served = [job for job in page.jobs if job.type in types and _may_run(job, paused)]
        if any(job.run_at <= now - _CLAIM_TIME for job in served):
            return True
        if served and page.cursor is not None:
            return True  # so many are newer that the oldest were not read
    return False


def _may_run(job: Job, paused: Sequence[Pause]) -> bool:
    return job.parked is None and not any(
        one.queue in (None, job.queue) and one.type in (None, job.type) for one in paused
    )
