"""Pages of jobs: bounded by rows and by bytes, because one job may weigh a megabyte."""

from longshore.contract import JobFilter, Jobs, Page
from longshore.core.job import Job

__all__ = ["MOST_BYTES", "find"]

MOST_BYTES = 4 << 20
"""Of payloads, results and errors in one page, unless its first job alone has more."""
_FIRST = 16
_MOST_AT_ONCE = 32
"""Large jobs may lie behind small ones: so many are read at most to find that out."""
_BESIDES = 500
"""What else there is to say of a job takes about so many bytes."""


async def find(
    engine: Jobs, which: JobFilter, *, limit: int, cursor: str | None = None
) -> Page:
    """Up to `limit` jobs, newest first: fewer, and where to go on, when they are large.

    Read in steps, the first of them small: how large jobs are is known when they are here.
    """
    found: list[Job] = []
    size, step = 0, _FIRST
    while True:
        step = max(1, min(step, limit - len(found)))
        page = await engine.find(which, limit=step, cursor=cursor)
        fitting = _fitting(page, MOST_BYTES - size) or (0 if found else 1)
        if fitting < len(page.jobs):
            if fitting:
                page = await engine.find(which, limit=fitting, cursor=cursor)
                found, cursor = [*found, *page.jobs], page.cursor
            return Page(found, cursor)
        found, cursor = [*found, *page.jobs], page.cursor
        size += sum(map(_weight, page.jobs))
        if cursor is None or len(found) >= limit:
            return Page(found, cursor)
        step = min((MOST_BYTES - size) * len(found) // (size + 1), _MOST_AT_ONCE)


def _fitting(page: Page, room: int) -> int:
    """How many of its jobs have room, from the first."""
    for place, job in enumerate(page.jobs):
        room -= _weight(job)
        if room < 0:
            return place
    return len(page.jobs)


def _weight(job: Job) -> int:
    why = job.failure
    told = 0 if why is None else len(why.message) + len(why.traceback)
    return _BESIDES + len(job.payload) + len(job.result or b"") + told
