"""Wait for jobs to finish."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta

from longshore.cli import render
from longshore.core import units
from longshore.core.state import TERMINAL, State
from longshore.errors import JobFailedError, WaitTimeoutError
from longshore.operations.backend import Backend
from longshore.operations.job_documents import JobDocument

__all__ = ["finished", "refuse_failed"]

_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.5


async def finished(
    backend: Backend, job_ids: Sequence[str], *, within: timedelta | None
) -> list[JobDocument]:
    """The jobs once all have finished, or WaitTimeoutError. A terminal shows what they do."""
    try:
        async with asyncio.timeout(within.total_seconds() if within is not None else None):
            with render.progress() as say:
                return [await _finished(backend, job_id, say) for job_id in job_ids]
    except TimeoutError:
        waited = units.duration_text(within or timedelta())
        raise WaitTimeoutError(f"not finished after {waited}; the job goes on") from None


def refuse_failed(jobs: Sequence[JobDocument]) -> None:
    """JobFailedError for the first that did not succeed."""
    for job in jobs:
        if job.state is not State.SUCCEEDED:
            error = f"{job.failure.kind}: {job.failure.message}" if job.failure else None
            why = "; ".join(words for words in (job.reason, error) if words)
            raise JobFailedError(job.id, job.state, why or None)


async def _finished(backend: Backend, job_id: str, say: Callable[[str], None]) -> JobDocument:
    pause = _FIRST_PAUSE
    while (job := await backend.get(job_id)).state not in TERMINAL:
        say(f"{job_id} is {job.state}")
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)
    return job
