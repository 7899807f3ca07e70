"""Lines: the jobs of one tenant that share a queue and an ordering key.

A line has a gate. As many of its jobs as may are inside, in the order in which they joined:
they are ready, they run, or they wait to be tried again. The others are parked. One that ends
lets the next one in. A dead one, where the queue says so, keeps the line blocked.

Where a queue says how many jobs of a key may start in a second, whoever is let in takes a token
from the bucket of the line. When there is none, and the line has room, it opens by time:
promote looks at it when the next token is there. So it does at once where what is said of a
queue changes, and lets more in. One that is tried again, or goes back to the
line that it blocked, is inside already and takes none.
"""

from typing import NamedTuple

import msgspec

from longshore.core.job import JobId
from longshore.core.limit_settings import OnDead, QueueSettings, limit_of
from longshore.core.state import State
from longshore.core.token_bucket import Limit, borrow

__all__ = [
    "PARKED",
    "Line",
    "LineName",
    "blocks",
    "bucket_limit",
    "is_inside",
    "may_open",
    "opens_at",
    "room",
    "took",
]

PARKED = "line"
"""Why a job is parked that waits in its line."""


class LineName(NamedTuple):
    """Which line."""

    queue: str
    tenant: str
    key: str

    @property
    def bucket(self) -> str:
        """The name of its bucket. Queues and tenants have no spaces in theirs."""
        return f"line {self.queue} {self.tenant} {self.key}"


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
    opens_at: int | None = None
    """When its rate lets the next one in, if nothing else keeps it."""


def bucket_limit(settings: QueueSettings) -> Limit | None:
    """What the bucket of each line of a queue holds; None: lines of it have none."""
    return limit_of(settings.rate_per_key, settings.burst_per_key)


def room(
    settings: QueueSettings,
    *,
    inside: int,
    is_blocked: bool,
    empty_at: int | None = None,
    now: int = 0,
) -> int:
    """How many more jobs of a line may be let in; `empty_at` is what its bucket stores."""
    free = 0 if is_blocked else max((settings.max_running_per_key or 1) - inside, 0)
    limit = bucket_limit(settings)
    if limit is None or not free:
        return free
    return min(free, borrow(empty_at, limit, want=0, now=now)[1].left)


def took(settings: QueueSettings, empty_at: int | None, *, jobs: int, now: int) -> int | None:
    """What is to be stored of the bucket of a line of which so many jobs were let in at once.

    They borrow together: what each takes is rounded up to a nanosecond, and many small borrows
    would add up to more than one.
    """
    limit = bucket_limit(settings)
    if limit is None or not jobs:
        return empty_at
    return borrow(empty_at, limit, want=jobs, now=now)[0]


def opens_at(
    settings: QueueSettings, *, inside: int, is_blocked: bool, empty_at: int | None, now: int
) -> int | None:
    """When the rate lets the next parked job of a line in; None: something else does."""
    limit = bucket_limit(settings)
    if limit is None or is_blocked or inside >= (settings.max_running_per_key or 1):
        return None
    return limit.there_at(borrow(empty_at, limit, want=0, now=now)[0], 1)


def may_open(before: QueueSettings, after: QueueSettings) -> bool:
    """Whether lines of a queue that wait may go on because of what is said of it now.

    What is said again may have been said in vain: whoever said it was gone before lines opened.
    """
    grows = (after.max_running_per_key or 1) > (before.max_running_per_key or 1)
    return grows or before == after or bucket_limit(before) != bucket_limit(after)


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
