"""What becomes of the jobs of a worker that died, by what its flight record tells.

The record is the worker's own account, kept outside of it: which handlers had started, which
had ended and how. Whatever it does not tell for sure counts as running.
"""

from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from longshore.core import settle
from longshore.core.answer import Reference
from longshore.core.job import Held, Settlement

__all__ = ["Trace", "aftermath"]

_SECOND = 1_000_000


class Trace(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One attempt in the record. Times are the engine's."""

    handle: int
    delivery: int
    started_at: int
    finished_at: int | None = None
    """When its handler ended; None: it was running."""
    settlement: Settlement | None = None
    """How it was to be settled; None when it just succeeded, or has not ended."""
    timed_out_after: int | None = None
    """The time it was given, when that was up and the worker was ended for it."""


def aftermath(
    held: Sequence[Held],
    traces: Sequence[Trace],
    *,
    is_whole: bool,
    now: int,
    delay: Callable[[Held], int],
) -> list[Settlement]:
    """How to settle everything that a dead worker held.

    `is_whole` says that every attempt that began has its trace: then a job without one had not
    started, and is given back uncharged. `delay` tells how long a job waits after one failure
    more; only those that ran out of time need it.
    """
    found: dict[Reference, Trace] = {(one.handle, one.delivery): one for one in traces}

    def settled(job: Held) -> Settlement:
        trace = found.get((job.handle, job.delivery))
        if trace is None:
            return _untraced(job, is_whole=is_whole, now=now)
        if trace.finished_at is None:
            return _interrupted(job, trace, now=now, delay=delay)
        return trace.settlement or settle.succeeded(
            job, started_at=trace.started_at, finished_at=trace.finished_at
        )

    return [settled(job) for job in held]


def _untraced(job: Held, *, is_whole: bool, now: int) -> Settlement:
    if is_whole and job.started_at is None:
        return settle.released(job)
    return _crashed(job, now)


def _interrupted(
    job: Held, trace: Trace, *, now: int, delay: Callable[[Held], int]
) -> Settlement:
    limit = trace.timed_out_after
    if limit is None:
        return _crashed(job, trace.started_at)
    why = settle.failure(
        "timeout", f"ran longer than {limit / _SECOND:g} s and kept its whole worker from work"
    )
    wait = delay(job)
    return settle.failed(job, why, delay=wait, started_at=trace.started_at, finished_at=now)


def _crashed(job: Held, started_at: int) -> Settlement:
    if job.started_at is None:
        job = replace(job, started_at=started_at)
    return settle.lost(job)
