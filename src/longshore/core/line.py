"""Lines: the jobs of one tenant that share a queue and an ordering key.

A line has a gate. As many of its jobs as may are inside, in the order in which they joined:
they are ready, they run, or they wait to be tried again. The others are parked. One that ends
lets the next one in. A dead one, where the queue says so, keeps the line blocked.
"""

from typing import NamedTuple

import msgspec

from longshore.core.flow import OnDead, QueueSettings
from longshore.core.job import JobId
from longshore.core.state import State

__all__ = ["PARKED", "Line", "LineName", "blocks", "is_inside", "room"]

PARKED = "line"
"""Why a job is parked that waits in its line."""


class LineName(NamedTuple):
    """Which line."""

    queue: str
    tenant: str
    key: str


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A line, as people see it."""

    queue: str
    key: str
    tenant: str
    inside: int
    """Its jobs that are ready, run, or wait to be tried again."""
    parked: int
    """Those that wait behind them."""
    last: JobId | None = None
    """The job that was let in last."""
    dead: tuple[JobId, ...] = ()
    """Those that block it, until someone releases the line or replays them."""


def room(settings: QueueSettings, *, inside: int, is_blocked: bool) -> int:
    """How many more jobs of a line may be let in."""
    most = settings.max_running_per_key or 1
    return 0 if is_blocked else max(most - inside, 0)


def blocks(settings: QueueSettings, state: State) -> bool:
    """Whether a job that ended so keeps its line blocked."""
    return state is State.DEAD and settings.on_dead is OnDead.BLOCK


def is_inside(state: State, *, delivery: int, is_parked: bool) -> bool:
    """Whether a job with an ordering key holds a place at the gate.

    What is to run later joins when it is due: until then it was never delivered.
    """
    if state is State.SCHEDULED:
        return delivery > 0
    return state is State.RUNNING or (state is State.READY and not is_parked)
