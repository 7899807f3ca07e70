"""An order to many dead jobs: named by id, or found by a filter and taken batch by batch."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click
import msgspec

from longshore.cli import listing
from longshore.cli.parameters import filtered, job_ids
from longshore.core.job import Job, JobId
from longshore.core.state import State
from longshore.engine import Engine, JobFilter
from longshore.errors import IllegalTransitionError, JobNotFoundError

__all__ = ["Order", "Selection", "Tally", "apply", "count", "selecting"]

_BATCH = 500
_ALL = 1 << 62

Order = Callable[[Sequence[JobId]], Awaitable[object]]
"""Applies to all of the ids, or raises and applies to none."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which dead jobs are meant: those with the ids or, without ids, all that match."""

    job_ids: Sequence[JobId]
    which: JobFilter


@dataclass(slots=True)
class Tally:
    """How far an order got."""

    done: int = 0
    missed: int = 0
    """Were gone or no longer dead when their turn came."""


def selecting(function: Callable[..., None]) -> Callable[..., None]:
    """Ids, a filter or `--all`, passed as one Selection named `chosen`."""

    @job_ids(required=False)
    @filtered
    @click.option("--all", "is_all", is_flag=True, help="All dead jobs.")
    @wraps(function)
    def gathered(*args: Any, **options: Any) -> None:
        named: list[JobId] = options.pop("job_ids")
        which: JobFilter = options.pop("which")
        is_all: bool = options.pop("is_all")
        if [bool(named), which != JobFilter(), is_all].count(True) != 1:
            raise click.UsageError("name the jobs by id, or by a filter, or take --all of them")
        which = msgspec.structs.replace(which, state=State.DEAD)
        function(*args, chosen=Selection(named, which), **options)

    return gathered


async def count(engine: Engine, chosen: Selection) -> int:
    """How many dead jobs the selection means now."""
    if chosen.job_ids:
        found = [await engine.get(job_id) for job_id in chosen.job_ids]
        return sum(job.state is State.DEAD for job in found)
    pages = listing.pages(engine, chosen.which, limit=_ALL)
    return sum([len(page.jobs) async for page in pages])


async def apply(
    engine: Engine,
    chosen: Selection,
    order: Order,
    *,
    rate: float | None = None,
    watch: Callable[[Tally], None] = lambda _: None,
) -> Tally:
    """Give the order to every job of the selection, found ones at most `rate` per second.

    Jobs named by id: all or none. Jobs found by a filter: those that someone else changed
    meanwhile are left out.
    """
    if chosen.job_ids:
        await order(chosen.job_ids)
        return Tally(done=len(chosen.job_ids))
    tally = Tally()
    size = _BATCH if rate is None else min(_BATCH, max(1, int(rate)))
    async for page in listing.pages(engine, chosen.which, limit=_ALL):
        for start in range(0, len(page.jobs), size):
            batch = page.jobs[start : start + size]
            await _apply(order, batch, tally)
            watch(tally)
            await asyncio.sleep(0 if rate is None else len(batch) / rate)
    return tally


async def _apply(order: Order, jobs: Sequence[Job], tally: Tally) -> None:
    try:
        await order([job.id for job in jobs])
    except (JobNotFoundError, IllegalTransitionError):
        if len(jobs) == 1:
            tally.missed += 1
            return
        # One of them was changed meanwhile, and nothing was applied to the others either.
        for job in jobs:
            await _apply(order, [job], tally)
    else:
        tally.done += len(jobs)
