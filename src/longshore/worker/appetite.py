"""Which queues an exchange asks, and for how much, where some jobs run in child processes.

Children are few and their jobs long, so a worker claims no more of these than it can begin: a
job that waited here would be kept from a worker that has a child to spare. An exchange can name
queues, but not types. So once there is more than fits, exchanges take turns. One asks the
queues that have jobs for children, for as many as there is room. The next asks the others, for
all it can get. A queue that mixes both is among both; what does not fit goes back, and the
queue is then left out of the second turn for a moment.
"""

from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["Appetite", "Request"]

_REST = 0.25


class Request(NamedTuple):
    """What one exchange asks for."""

    want: int
    queues: tuple[str, ...] | None
    """In this order; None for all of the session's, in its own."""
    is_partial: bool = False
    """Some queues are left out: an empty answer says nothing of them."""
    is_for_children: bool = False
    """It asks for no more than the children can begin."""


class Appetite:
    """Knows which queues hold jobs for children, and whether there were too many."""

    def __init__(self, queues: tuple[str, ...]) -> None:
        self._queues = queues
        self._apart: set[str] = set()
        """Queues that gave jobs for children."""
        self._common: set[str] = set()
        """Queues that gave other jobs."""
        self._is_short = False
        """There was more for the children than they could begin."""
        self._is_turn_of_others = False
        self._rests: dict[str, float] = {}

    def request(
        self, want: int, room: int | None, order: tuple[str, ...] | None, now: float
    ) -> Request:
        """What to ask, with room for so many jobs in children; None where there are none."""
        if not self._is_short or room is None:
            return Request(want, order)
        names = order or self._queues
        apart = tuple(name for name in names if name in self._apart)
        others = tuple(
            name
            for name in names
            if (name in self._common or name not in self._apart)
            and self._rests.get(name, now) <= now
        )
        if apart and room > 0 and not (others and self._is_turn_of_others):
            return Request(
                min(want, room),
                apart,
                is_partial=len(apart) < len(names),
                is_for_children=True,
            )
        return Request(want if others else 0, others, is_partial=len(others) < len(names))

    def is_eager(self, room: int | None) -> bool:
        """There is room again for jobs that had to be left."""
        return self._is_short and room is not None and room > 0

    def rest_of(self, now: float) -> float | None:
        """Seconds until a queue that rests may be asked again; None when none does."""
        ends = [until - now for until in self._rests.values() if until > now]
        return min(ends) if ends and self._is_short else None

    def received(
        self,
        asked: Request,
        *,
        apart: Iterable[str],
        common: Iterable[str],
        surplus: Iterable[str],
        now: float,
    ) -> None:
        """The answer: the queues of jobs for children, of others, of those that did not fit."""
        apart, common, surplus = list(apart), list(common), set(surplus)
        self._apart.update(apart)
        self._common.update(common)
        self._is_turn_of_others = asked.is_for_children
        for name in surplus & self._common:
            self._rests[name] = now + _REST
        if surplus:
            self._is_short = True
        elif len(apart) + len(common) < asked.want and (
            asked.is_for_children or not asked.is_partial
        ):
            self._is_short = False
