"""What a relay hands events to."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from longshore.core.event import Event

__all__ = ["Refused", "Sink", "SinkError"]


class SinkError(Exception):
    """The sink cannot take events now. What it was given is given to it again."""


@dataclass(frozen=True, slots=True)
class Refused:
    """An event that the sink will never take."""

    event: Event
    reason: str
    body: bytes


class Sink(Protocol):
    """Takes events in order, and keeps them for good."""

    @property
    def name(self) -> str:
        """The consumer that it is."""
        ...

    async def send(
        self, events: Sequence[Event], *, keep: Callable[[], Awaitable[None]]
    ) -> list[Refused]:
        """Return once every event is kept for good, but for those that it refuses.

        However long that takes: `keep` is called every second or so, and raises when there is
        no more to wait for. An event may be kept though the call raises; whoever calls again
        begins with the same event. What is kept of a subject's events is in order, and never
        has a gap.
        """
        ...

    async def close(self) -> None:
        """Let go of everything. Safe to call twice."""
        ...
