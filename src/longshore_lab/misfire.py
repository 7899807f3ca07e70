"""Firing done wrong on purpose, to show that the count of due times would notice.

Both plants do in two commits what an engine does in one, and so trust that nobody is killed,
or looks, between the two.
"""

import asyncio

from msgspec.structs import replace

from longshore.contract import Engine
from longshore.contract.forwarding import ForwardingEngine
from longshore.core.job import Submitted
from longshore.core.schedule import Firing, Shot
from longshore.runtime.ids import IdSource

__all__ = ["PLANTS", "planted"]

PLANTS = {
    "double": "a firer submits its jobs first, and takes the due time after that",
    "miss": "a firer takes the due time first, and submits its jobs after that",
}
"""What can be planted, and what it means."""

_BETWEEN = 0.05
"""Seconds. Long enough for a kill to fall into it now and then."""


def planted(engine: Engine, plant: str) -> Engine:
    """The engine, with firing done wrong."""
    kind = {"double": _JobsFirst, "miss": _DueTimeFirst}[plant]
    return kind(engine)


class _JobsFirst(ForwardingEngine):
    async def fire(self, firing: Firing) -> list[Submitted]:
        jobs = [shot.job for shot in firing.shots if shot.job is not None]
        answers = await self._inner.submit(jobs)
        await self._inner.fire(replace(firing, shots=()))
        return answers


class _DueTimeFirst(ForwardingEngine):
    async def fire(self, firing: Firing) -> list[Submitted]:
        jobs = [shot.job for shot in firing.shots if shot.job is not None]
        # Only whoever gets a job back took the due time: this one does nothing else.
        decoys = tuple(
            Shot(due, replace(job, id=IdSource().make(), type="noop", payload=b"{}"))
            for due, job in ((shot.due, shot.job) for shot in firing.shots)
            if job is not None
        )
        if not await self._inner.fire(replace(firing, shots=decoys)):
            return []
        await asyncio.sleep(_BETWEEN)
        return await self._inner.submit(jobs)
