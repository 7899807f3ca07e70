"""What one look at the queue finds."""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar, Unpack

from longshore.core.limit_settings import QueueFlow
from longshore.core.state import State
from longshore.core.view import QueueCounts
from longshore.errors import ConfigError
from longshore.operations.backend import Backend
from longshore.operations.breakers import BreakerView
from longshore.operations.job_documents import AttemptView, JobDocument
from longshore.operations.jobs import Which
from longshore.operations.queues import QueueView, queue_view
from longshore.operations.workers import CrashCounts, WorkerView

__all__ = ["Facts", "Opened", "jobs_of", "look", "open_job"]

T = TypeVar("T")

_DEAD = 50
_JOBS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The whole queue at one moment of its own clock."""

    url: str
    now: datetime
    queues: Sequence[QueueView]
    workers: Sequence[WorkerView] | None
    """None: the API key is a tenant's, and workers are not its business."""
    crashes: CrashCounts | None
    """None as above."""
    breakers: Sequence[BreakerView] | None
    """None as above."""
    dead: Sequence[JobDocument]
    """The newest."""


@dataclass(frozen=True, slots=True)
class Opened:
    """One job, with its history and why it does not run."""

    job: JobDocument
    attempts: Sequence[AttemptView]
    reasons: Sequence[str]


async def look(backend: Backend) -> Facts:
    """Ask for all of it. A queue that only a worker knows of is listed too."""
    workers = await _permitted(backend.workers())
    known = {one.queue: one for one in await backend.queues(may_estimate=True)}
    idle = {queue for one in workers or () for queue in one.queues} - known.keys()
    pauses = await backend.pauses() if idle else ()
    for name in idle:
        known[name] = queue_view(QueueCounts(queue=name), pauses, QueueFlow(name))
    return Facts(
        url=backend.url,
        now=await backend.now(),
        queues=[known[name] for name in sorted(known)],
        workers=workers,
        crashes=None if workers is None else await backend.crash_counts(),
        breakers=await _permitted(backend.breakers()),
        dead=await _newest(backend, _DEAD, state=State.DEAD),
    )


async def jobs_of(backend: Backend, queue: str, state: State | None) -> list[JobDocument]:
    """The newest jobs of a queue."""
    which: Which = {"queue": queue}
    if state is not None:
        which["state"] = state
    return await _newest(backend, _JOBS, **which)


async def open_job(backend: Backend, job_id: str) -> Opened:
    """The job, or JobNotFoundError."""
    job, attempts = await backend.get(job_id), await backend.attempts(job_id)
    reasons = (await backend.explain(job_id)).reasons
    return Opened(job, attempts, [one.text for one in reasons])


async def _newest(backend: Backend, most: int, **which: Unpack[Which]) -> list[JobDocument]:
    found: list[JobDocument] = []
    async for job in backend.jobs(**which):
        found.append(job)
        if len(found) == most:
            break
    return found


async def _permitted(call: Awaitable[T]) -> T | None:
    try:
        return await call
    except ConfigError:
        return None
