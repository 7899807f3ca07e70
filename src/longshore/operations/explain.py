"""Gathers what is known about why a job does not run, by the calls that every engine has."""

from longshore import paging
from longshore.contract import Engine, JobFilter, QueueCounts
from longshore.core.explain import Facts, Pace, goes_first, pace
from longshore.core.job import Job, JobId
from longshore.core.limit_settings import Order, QueueSettings
from longshore.core.ordering_key import PARKED, Line
from longshore.core.state import State
from longshore.records import breaker_settings, pauses, queue_settings

__all__ = ["gather"]

_LOOKED_AT = 200
"""Of the newest ready jobs, to find those that go behind."""
_ENDED = 50
"""Of the newest that succeeded, to tell how fast the queue is."""


async def gather(engine: Engine, job_id: JobId, *, tenant: str | None = None) -> Facts:
    """The facts about a job, or JobNotFoundError.

    For a tenant, those before it are counted among its own jobs: how many others have is not
    its business.
    """
    job = await engine.get(job_id, tenant=tenant)
    now = await engine.now()
    if job.state not in (State.READY, State.SCHEDULED):
        return Facts(job=job, now=now)
    everyone = _of(job.queue, await engine.counts(may_estimate=True))
    said = await queue_settings.get(engine, job.queue)
    settings = said.effective
    if settings.order is Order.FAIR:
        tenant = job.tenant  # who else waits has no part in its place
    counts = everyone if tenant is None else _of(job.queue, await engine.counts(tenant=tenant))
    return Facts(
        job=job,
        now=now,
        breaker=await breaker_settings.get(engine, job.type),
        line=await _line(engine, job),
        counts=counts,
        running=everyone.running,
        settings=settings,
        token_at=said.token_at,
        pauses=await pauses.every(engine),
        sessions=(await engine.sessions()).sessions,
        ahead=await _ahead(engine, job, tenant, counts, settings),
        pace=await _pace(engine, job, tenant, now),
    )


async def _pace(engine: Engine, job: Job, tenant: str | None, now: int) -> Pace | None:
    """How fast jobs that wait like this one ended lately."""
    which = JobFilter(queue=job.queue, state=State.SUCCEEDED, tenant=tenant)
    return pace((await paging.find(engine, which, limit=_ENDED)).jobs, now)


async def _line(engine: Engine, job: Job) -> Line | None:
    if job.parked != PARKED or job.ordering_key is None:
        return None
    return await engine.line(job.queue, job.ordering_key, tenant=job.tenant)


async def _ahead(
    engine: Engine, job: Job, tenant: str | None, counts: QueueCounts, settings: QueueSettings
) -> int | None:
    """Ready jobs that go first, at most: all but those that are known to go behind."""
    if job.state is not State.READY:
        return None
    others = counts.ready - counts.parked - 1
    if others <= 0:
        return 0
    which = JobFilter(queue=job.queue, state=State.READY, tenant=tenant)
    newest = (await paging.find(engine, which, limit=_LOOKED_AT)).jobs
    behind = sum(
        one.id != job.id and one.parked is None and not goes_first(one, job, settings)
        for one in newest
    )
    return max(others - behind, 0)


def _of(queue: str, counts: list[QueueCounts]) -> QueueCounts:
    return next((one for one in counts if one.queue == queue), QueueCounts(queue=queue))
