"""Where the relays of a simulation send events, and whether all of them arrived in order."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random

from longshore.contract.outbox import Outbox
from longshore.core import ids
from longshore.core.event import Event
from longshore.relay.sink import Refused, SinkError
from longshore_lab.checkers import Finding
from longshore_lab.relayed import relayed
from longshore_lab.sim.stage import Faults

__all__ = ["Topic"]

_LONGEST = 0.3
"""Seconds that the way there or back takes at the most: time enough to die on it."""


class Topic:
    """Keeps all that it is sent."""

    name = "topic"

    def __init__(self) -> None:
        self.kept: list[Event] = []

    @property
    def repeated(self) -> int:
        """How many events came that had come before."""
        return len(self.kept) - len({event.id for event in self.kept})

    def sink(self, faults: Faults, rng: Random) -> "_Sink":
        """A relay's own way to it."""
        return _Sink(self, faults, rng)

    async def relayed(self, outbox: Outbox) -> Finding:
        """Every event arrived, and those of a job in their order."""
        return await relayed(outbox, [(ids.text(one.job_id), one.id) for one in self.kept])


class _Sink:
    """See `longshore.relay.sink.Sink`."""

    def __init__(self, topic: Topic, faults: Faults, rng: Random) -> None:
        self._topic = topic
        self._faults = faults
        self._rng = rng

    @property
    def name(self) -> str:
        return self._topic.name

    async def send(
        self, events: Sequence[Event], *, keep: Callable[[], Awaitable[None]]
    ) -> list[Refused]:
        rng = self._rng
        await asyncio.sleep(rng.random() * _LONGEST)
        await keep()
        does_fail = rng.random() < self._faults.fails
        self._topic.kept += events[: rng.randint(0, len(events))] if does_fail else events
        await asyncio.sleep(rng.random() * _LONGEST)
        if does_fail or rng.random() < self._faults.loses:
            raise SinkError("no answer")
        return []

    async def close(self) -> None:
        pass
