"""Which jobs are slow, and whether they wait or run."""

from longshore import paging
from longshore.contract import JobFilter, Jobs
from longshore.core.job import Job
from longshore.core.latency import Slowness, by_type
from longshore.core.state import State

__all__ = ["slowness"]


async def slowness(engine: Jobs, which: JobFilter, *, sample: int) -> list[Slowness]:
    """By type, of the newest `sample` jobs that succeeded and as many that are dead."""
    jobs: list[Job] = []
    for state in (State.SUCCEEDED, State.DEAD):
        jobs += await _newest(engine, which, state, sample)
    return by_type(jobs)


async def _newest(engine: Jobs, which: JobFilter, state: State, sample: int) -> list[Job]:
    jobs: list[Job] = []
    cursor: str | None = None
    narrowed = JobFilter(
        tenant=which.tenant, queue=which.queue, type=which.type, state=state, tag=which.tag
    )
    while len(jobs) < sample:
        page = await paging.find(engine, narrowed, limit=sample - len(jobs), cursor=cursor)
        jobs += page.jobs
        cursor = page.cursor
        if cursor is None:
            break
    return jobs
