"""What is true of the whole queue, as the engine tells it: depths, ages, breakers, workers."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Generic, NamedTuple, Protocol, TypeVar

from longshore.core.flow import BreakerFlow, Phase
from longshore.engine import Losses, QueueCounts, SessionView
from longshore.errors import LongshoreError
from longshore.observe.exposition import Reading

__all__ = ["Overview", "Source", "View", "gauges"]

T = TypeVar("T")

_FRESH = 1.0
"""Seconds that a view is good for."""
_PATIENCE = 0.03
"""Seconds that a caller waits for a new view, where there is an older one."""
_FIRST = 5.0
"""Seconds that a caller waits where there is none."""
_SHARE = 20
"""Between two views lies so many times as long as the last one took."""
_OLDEST = 120.0
"""Seconds after which a view is no longer worth telling."""
_MOST = 200
_MOST_TENANTS = 1_000
_PHASES = {Phase.CLOSED: 0.0, Phase.HALF_OPEN: 1.0, Phase.OPEN: 2.0}


class Source(Protocol):
    """What is asked of an engine."""

    async def counts(
        self, *, tenant: str | None = None, may_estimate: bool = False
    ) -> list[QueueCounts]:
        """Every queue that has jobs or settings."""
        ...

    async def breaker_settings(self) -> list[BreakerFlow]:
        """Every breaker, and how it stands."""
        ...

    async def sessions(self) -> list[SessionView]:
        """The sessions that hold a lease."""
        ...

    async def losses(self) -> Losses:
        """How many workers vanished with jobs."""
        ...

    async def now(self) -> int:
        """The engine's clock."""
        ...


class View(NamedTuple):
    """The queue at one moment."""

    taken: float
    """On this process's monotonic clock."""
    now: int
    """On the engine's clock."""
    counts: Sequence[QueueCounts]
    breakers: Sequence[BreakerFlow]
    sessions: Sequence[SessionView]
    losses: Losses = Losses()


class Overview:
    """Looks at the queue at most once a second, whoever asks, and never twice at a time."""

    def __init__(self, engine: Source) -> None:
        self._engine = engine
        self._whole = _Look(self._seen)
        self._tenants: dict[str, _Look[Sequence[QueueCounts]]] = {}

    async def view(self) -> View | None:
        """A view that is as fresh as can be had at once; None while the engine gives none."""
        return await self._whole.latest()

    async def counts_of(self, tenant: str) -> Sequence[QueueCounts] | None:
        """The same for what one tenant has."""
        look = self._tenants.pop(tenant, None) or _Look(
            partial(self._engine.counts, tenant=tenant)
        )
        self._tenants[tenant] = look
        if len(self._tenants) > _MOST_TENANTS:
            del self._tenants[next(iter(self._tenants))]
        return await look.latest()

    async def readings(self) -> list[Reading]:
        """The view as gauges; without one, only that the engine does not answer."""
        view = await self.view()
        up = Reading(
            "engine_up",
            "Whether the engine could be asked.",
            (),
            [((), float(view is not None))],
        )
        return [up] if view is None else [up, *gauges(view)]

    async def _seen(self) -> View:
        engine = self._engine
        counts = await engine.counts(may_estimate=True)
        breakers, sessions = await engine.breaker_settings(), await engine.sessions()
        losses, now = await engine.losses(), await engine.now()
        return View(monotonic(), now, counts, breakers, sessions, losses)


class _Look(Generic[T]):
    """What was seen last. Where a look is dear it is made less often, and nobody waits for it.

    Who asks gets the last one at once then: at the usual pace of a monitor that is one scrape
    behind.
    """

    def __init__(self, see: Callable[[], Awaitable[T]]) -> None:
        self._see = see
        self._seen: tuple[float, T] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._not_before = 0.0

    async def latest(self) -> T | None:
        """As fresh as can be had at once; None where there is none that is worth telling."""
        seen, now = self._seen, monotonic()
        if seen is not None and now - seen[0] < _FRESH:
            return seen[1]
        if self._looking is None and now >= self._not_before:
            self._looking = asyncio.create_task(self._look())
        if self._looking is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_FIRST if seen is None else _PATIENCE):
                    await asyncio.shield(self._looking)
        seen = self._seen
        return None if seen is None or monotonic() - seen[0] > _OLDEST else seen[1]

    async def _look(self) -> None:
        began = monotonic()
        try:
            # A failure is told by there being no view: whoever collects us must not fail with
            # the engine.
            with suppress(LongshoreError, TimeoutError):
                async with asyncio.timeout(_OLDEST / 2):
                    self._seen = (began, await self._see())
        finally:
            ended = monotonic()
            self._not_before = ended + (ended - began) * _SHARE
            self._looking = None


def gauges(view: View) -> list[Reading]:
    """The view as a monitor is told of it."""
    depth: dict[tuple[str, ...], float] = defaultdict(float)
    age: dict[tuple[str, ...], float] = defaultdict(float)
    paused: dict[tuple[str, ...], float] = defaultdict(float)
    largest = sorted(view.counts, key=lambda one: -(one.ready + one.scheduled + one.running))
    for place, one in enumerate(largest):
        queue = one.queue if place < _MOST else "other"
        for state, jobs in _states(one):
            depth[queue, state] += jobs
        oldest = view.now if one.oldest_ready_at is None else one.oldest_ready_at
        age[queue,] = max(age[queue,], (view.now - oldest) / 1e6)
        paused[queue,] = max(paused[queue,], float(one.is_paused))
    breakers = [((one.type,), _PHASES[one.phase]) for one in view.breakers[:_MOST]]
    workers = sum(not one.is_quiet for one in view.sessions)
    queue = ("queue",)
    return [
        Reading("queue_depth", "Jobs by state.", ("queue", "state"), sorted(depth.items())),
        Reading(
            "queue_oldest_age_seconds",
            "How long the oldest ready job has been waiting.",
            queue,
            sorted(age.items()),
        ),
        Reading("queue_paused", "Whether it is paused.", queue, sorted(paused.items())),
        Reading("breaker_state", "0 closed, 1 half-open, 2 open.", ("type",), breakers),
        Reading("workers", "Sessions of workers that take jobs.", (), [((), float(workers))]),
        Reading(
            "workers_lost_total",
            "Workers that vanished with jobs, whoever noticed it.",
            (),
            [((), float(view.losses.workers))],
            "counter",
        ),
        Reading(
            "jobs_reclaimed_total",
            "Jobs taken back from workers that vanished.",
            (),
            [((), float(view.losses.jobs))],
            "counter",
        ),
        Reading(
            "overview_age_seconds",
            "How old the depths and ages are that stand here.",
            (),
            [((), round(monotonic() - view.taken, 3))],
        ),
    ]


def _states(one: QueueCounts) -> list[tuple[str, int]]:
    return [
        ("ready", one.ready - one.parked),
        ("parked", one.parked),
        ("scheduled", one.scheduled),
        ("running", one.running),
        ("dead", one.dead),
    ]
