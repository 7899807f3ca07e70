"""What one look at the queue finds."""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from longshore import explaining, paging
from longshore.core.explain import explain
from longshore.core.flow import BreakerFlow
from longshore.core.job import Attempt, Job, JobId
from longshore.core.state import State
from longshore.engine import Engine, JobFilter, Pause, QueueCounts, SessionView
from longshore.errors import ConfigError

__all__ = ["Facts", "Opened", "jobs_of", "look", "open_job"]

T = TypeVar("T")

_DEAD = 50
_JOBS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The whole queue at one moment of its own clock."""

    url: str
    now: int
    queues: Sequence[QueueCounts]
    pauses: Sequence[Pause]
    workers: Sequence[SessionView] | None
    """None: the API key is a tenant's, and workers are not its business."""
    breakers: Sequence[BreakerFlow] | None
    """None as above."""
    dead: Sequence[Job]
    """The newest."""


@dataclass(frozen=True, slots=True)
class Opened:
    """One job, with its history and why it does not run."""

    job: Job
    attempts: Sequence[Attempt]
    reasons: Sequence[str]


async def look(engine: Engine) -> Facts:
    """Ask for all of it. A queue that only a worker knows of is listed too."""
    workers = await _permitted(engine.sessions())
    known = {one.queue: one for one in await engine.counts(may_estimate=True)}
    served = {queue for one in workers or () for queue in one.queues}
    return Facts(
        url=engine.url,
        now=await engine.now(),
        queues=[
            known.get(name) or QueueCounts(queue=name) for name in sorted({*known, *served})
        ],
        pauses=await engine.pauses(),
        workers=workers,
        breakers=await _permitted(engine.breaker_settings()),
        dead=(await paging.find(engine, JobFilter(state=State.DEAD), limit=_DEAD)).jobs,
    )


async def jobs_of(engine: Engine, queue: str, state: State | None) -> Sequence[Job]:
    """The newest jobs of a queue."""
    return (await paging.find(engine, JobFilter(queue=queue, state=state), limit=_JOBS)).jobs


async def open_job(engine: Engine, job_id: JobId) -> Opened:
    """The job, or JobNotFoundError."""
    facts = await _permitted(explaining.gather(engine, job_id))
    job = await engine.get(job_id) if facts is None else facts.job
    reasons = [] if facts is None else [one.text for one in explain(facts)]
    return Opened(job, await engine.attempts(job_id), reasons)


async def _permitted(call: Awaitable[T]) -> T | None:
    try:
        return await call
    except ConfigError:
        return None
