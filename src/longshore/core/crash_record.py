"""What becomes of the jobs of a worker that died, or that outlived its session.

Of one that died its flight record tells.

The record is the worker's own account, kept outside of it: which handlers had started, which
had ended and how. Whatever it does not tell for sure counts as running.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from longshore.core import settle
from longshore.core.job import Held, Settlement
from longshore.core.poison import death_beside
from longshore.core.responses import Reference

__all__ = ["Trace", "aftermath", "outlived"]

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
    in_child: bool = False
    """Its handler ran in a child process, and cannot be what the worker died of."""


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

    def trace_of(job: Held) -> Trace | None:
        return found.get((job.handle, job.delivery))

    def was_running(job: Held) -> bool:
        trace = trace_of(job)
        if trace is None:
            return not is_whole or job.started_at is not None
        return trace.finished_at is None

    running = [job for job in held if was_running(job)]
    interrupted = {
        (job.handle, job.delivery): _interrupted(
            job, trace_of(job), running, now=now, delay=delay
        )
        for job in running
    }
    return [
        interrupted.get((job.handle, job.delivery)) or _over(job, trace_of(job)) for job in held
    ]


def outlived(
    held: Sequence[Held],
    decided: Sequence[Settlement],
    *,
    stopped: Mapping[Reference, int],
) -> list[Settlement]:
    """How a worker settles everything that its session still held after its lease was over.

    Nobody else can have run these jobs, since the session still held them. So what had ended
    under the lease (`decided`) ends as it was decided then. All else is given back, uncharged
    and without a crash: what had not started, and what the worker stopped because it could not
    renew. `stopped` tells when each of those had started, on the engine's clock; none of their
    handlers may still run.
    """
    ended = {(one.handle, one.delivery): one for one in decided}

    def settlement_of(job: Held) -> Settlement:
        reference = (job.handle, job.delivery)
        return ended.get(reference) or settle.released(job, started_at=stopped.get(reference))

    return [settlement_of(job) for job in held]


def _over(job: Held, trace: Trace | None) -> Settlement:
    """It had not started, or had ended."""
    if trace is None or trace.finished_at is None:
        return settle.released(job)
    return trace.settlement or settle.succeeded(
        job, started_at=trace.started_at, finished_at=trace.finished_at
    )


def _interrupted(
    job: Held,
    trace: Trace | None,
    running: Sequence[Held],
    *,
    now: int,
    delay: Callable[[Held], int],
) -> Settlement:
    """It was running, with all the others of `running`, or nobody knows better."""
    started_at = now if trace is None else trace.started_at
    if trace is not None and (limit := trace.timed_out_after) is not None:
        words = f"ran longer than {limit / _SECOND:g} s and kept its whole worker from work"
        why, wait = settle.failure("timeout", words), delay(job)
        return settle.failed(job, why, delay=wait, started_at=started_at, finished_at=now)
    in_child = trace is not None and trace.in_child
    death = death_beside(job, running, in_child=in_child)
    if job.started_at is None:
        return settle.lost(replace(job, started_at=started_at), death)
    return settle.lost(job, death)
