"""An order to many jobs, found by a filter and taken batch by batch, on any engine.

Jobs that someone else changed meanwhile are left out and counted; the others get the order in
one commit for each batch. Whoever asks says how fast, how many, and whether to go on after
each batch.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import msgspec

from longshore import paging
from longshore.contract import JobFilter, Jobs
from longshore.core.job import Job, JobId
from longshore.core.state import TRANSITIONS, State, Verb
from longshore.errors import ConfigError

__all__ = [
    "Order",
    "Pace",
    "Tally",
    "apply",
    "count",
    "scopes",
]

_BATCH = 500
_BATCHES_A_SECOND = 10
"""With a rate: so that half a second's jobs do not arrive at once."""

Order = Callable[[Sequence[JobId]], Awaitable[list[Job]]]
"""Applies to those of the ids that still allow it; the jobs as they are then."""


@dataclass(slots=True)
class Tally:
    """How far an order got."""

    matched: int = 0
    """Jobs that were found."""
    done: int = 0
    missed: int = 0
    """Were gone, or in a state that forbids it, when their turn came."""
    is_complete: bool = False
    """Everything that matches was found."""


async def sleep(seconds: float) -> bool:
    """Wait between two batches, and go on."""
    await asyncio.sleep(seconds)
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast and how far to go."""

    rate: float | None = None
    """At most so many jobs a second."""
    limit: int | None = None
    """At most so many jobs."""
    rest: Callable[[float], Awaitable[bool]] = sleep
    """Waits so many seconds between two batches, and says whether to go on."""


_UNHURRIED = Pace()


def scopes(which: JobFilter, *verbs: Verb) -> list[JobFilter]:
    """The filter once for each state in which one of the verbs is possible.

    In the order in which a job passes through them, so that one that moves on is met again.
    ConfigError when the filter asks for a state in which none is possible.
    """
    states = [state for state in State if any((state, verb) in TRANSITIONS for verb in verbs)]
    if which.state is None:
        return [msgspec.structs.replace(which, state=state) for state in states]
    if which.state not in states:
        raise ConfigError(
            f"state is {which.state.value}; it must be {' or '.join(map(str, states))}"
        )
    return [which]


async def count(engine: Jobs, which: Sequence[JobFilter]) -> int:
    """How many jobs match now."""
    total = 0
    for scope in which:
        if scope.state is not None and scope.type is None and scope.tag is None:
            counts = await engine.counts(tenant=scope.tenant)
            total += sum(
                getattr(one, scope.state) for one in counts if scope.queue in (None, one.queue)
            )
        else:
            total += (await apply(engine, [scope], None)).matched
    return total


async def apply(
    engine: Jobs,
    which: Sequence[JobFilter],
    order: Order | None,
    pace: Pace = _UNHURRIED,
    *,
    watch: Callable[[Tally], None] = lambda _: None,
) -> Tally:
    """Give the order to the jobs that match, or without one only find them.

    `watch` is told after each batch how far it got.
    """
    clock = asyncio.get_running_loop().time
    rate = None if order is None else pace.rate
    size = _BATCH if rate is None else max(1, min(_BATCH, int(rate / _BATCHES_A_SECOND)))
    tally, started = Tally(), clock()
    for number, scope in enumerate(which, 1):
        cursor: str | None = None
        while True:
            most = size if pace.limit is None else min(size, pace.limit - tally.matched)
            page = await paging.find(engine, scope, limit=most, cursor=cursor)
            cursor = page.cursor
            jobs = [job for job in page.jobs if not _is_asked(job)]
            tally.matched += len(jobs)
            if order is not None and jobs:
                done = len(await order([job.id for job in jobs]))
                tally.done += done
                tally.missed += len(jobs) - done
            watch(tally)
            if cursor is None and number == len(which):
                tally.is_complete = True
                return tally
            pause = 0.0 if rate is None else started + tally.matched / rate - clock()
            if tally.matched == pace.limit or not await pace.rest(max(pause, 0.0)):
                return tally
            if cursor is None:
                break
    return tally


def _is_asked(job: Job) -> bool:
    """It runs and was asked to stop: to ask again would change nothing."""
    return job.state is State.RUNNING and job.cancel_requested
