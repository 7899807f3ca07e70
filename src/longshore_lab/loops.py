"""When a producer sends: open loop or closed loop.

In an open loop jobs arrive at fixed times, as people click whether or not the server is quick;
a call that comes late still counts from the time it was meant for, so that a queue that stalls
cannot hide the wait by holding up the generator (coordinated omission). In a closed loop the
next call waits until the queue has finished enough: that finds what a queue can sustain.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from longshore.core.view import QueueCounts
from longshore.errors import EngineError
from longshore_lab.batch import Batch
from longshore_lab.ledger import now
from longshore_lab.trial import Trial

__all__ = ["Depths", "arrive", "keep_up"]

_AT_ONCE = 64
"""Calls of an open loop that are under way at a time; more wait, and are late."""
_GLANCE = 0.02

Send = Callable[[Batch], Awaitable[None]]


class Depths(Protocol):
    """As much of an engine as a closed loop needs."""

    async def counts(self) -> list[QueueCounts]:
        """How many jobs are in which state, by queue."""
        ...


async def arrive(trial: Trial, batches: Iterable[Batch], send: Send) -> None:
    """Open loop: start each call at its time, whether or not the ones before were answered."""
    places = asyncio.Semaphore(_AT_ONCE)

    async def call(batch: Batch) -> None:
        try:
            await send(batch)
        finally:
            places.release()

    async with asyncio.TaskGroup() as calls:
        for batch in batches:
            early = trial.due(batch.orders.start) - now()
            if early > 0:
                await asyncio.sleep(early / 1_000_000)
            if trial.enough.exists():
                return
            await places.acquire()
            calls.create_task(call(batch))


async def keep_up(trial: Trial, engine: Depths, batches: Iterable[Batch], send: Send) -> None:
    """Closed loop: one call after the other, while few enough jobs are under way."""
    for batch in batches:
        while await _under_way(engine) > trial.in_flight - len(batch.orders):
            if _is_over(trial):
                return
            await asyncio.sleep(_GLANCE)
        if _is_over(trial):
            return
        await send(batch)


def _is_over(trial: Trial) -> bool:
    return 0 < trial.ends <= now()


async def _under_way(engine: Depths) -> float:
    try:
        counts = await engine.counts()
    except EngineError:
        # Nobody knows; whoever cannot count sends nothing either.
        return float("inf")
    return sum(one.ready + one.scheduled + one.running for one in counts)
