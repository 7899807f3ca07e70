"""What is true of the whole queue, as the engine tells it: depths, ages, breakers, workers."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Generic, NamedTuple, Protocol, TypeVar

from longshore.contract import Losses, QueueCounts, Records, SessionView
from longshore.core.limit_settings import BreakerFlow, Phase, QueueFlow
from longshore.core.view import Fleet
from longshore.errors import LongshoreError
from longshore.observe.exposition import Reading
from longshore.observe.metric_types import OTHER
from longshore.records import breaker_settings, queue_settings

__all__ = ["Overview", "Source", "View", "gauges", "preferred"]

T = TypeVar("T")

_FRESH = 1.0
"""Seconds that a view is good for."""
_PATIENCE = 0.03
"""Seconds that a scrape waits for a new view, where there is an older one."""
_DEADLINE = 3.0
"""Seconds that a caller waits for the store: for an answer at all, for a view where there is
none, and for a new view where the last one will not do. The port for monitors closes a
connection after 5."""
_SHARE = 20
"""Between two views lies so many times as long as the last one took."""
_OLDEST = 120.0
"""Seconds after which a view is no longer worth telling."""
_LONGEST_REST = _OLDEST / 4
"""Seconds between two views at most, so that one that is worth telling is always at hand."""
_MOST = 200
_MOST_TENANTS = 1_000
_PHASES = {Phase.CLOSED: 0.0, Phase.HALF_OPEN: 1.0, Phase.OPEN: 2.0}


class Source(Records, Protocol):
    """What is asked of an engine."""

    async def counts(
        self, *, tenant: str | None = None, may_estimate: bool = False
    ) -> list[QueueCounts]:
        """Every queue that has jobs or settings."""
        ...

    async def sessions(self) -> Fleet:
        """The sessions that hold a lease, and how many workers vanished."""
        ...

    async def ping(self) -> None:
        """Return if the store answers and can be worked on."""
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
    settings: Sequence[QueueFlow] = ()


class Overview:
    """Looks at the queue at most once a second, whoever asks, and never twice at a time."""

    def __init__(self, engine: Source, monotonic: Callable[[], float] = monotonic) -> None:
        self._engine = engine
        self._monotonic = monotonic
        self._whole = _Look(self._seen, monotonic)
        self._tenants: dict[str, _Look[Sequence[QueueCounts]]] = {}
        self._pinging: asyncio.Task[bool] | None = None

    async def view(self, *, patience: float | None = None) -> View | None:
        """A view of the queue, or None if none could be had.

        With a view that is not older than two minutes at hand, a new one is waited for
        `patience` seconds, by default a moment; else for a few seconds.
        """
        return await self._whole.latest(_PATIENCE if patience is None else patience)

    async def fresh_view(self) -> View | None:
        """The same for whoever would rather wait a few seconds than get the last one."""
        return await self.view(patience=_DEADLINE)

    async def fresh_counts_of(self, tenant: str) -> Sequence[QueueCounts] | None:
        """What one tenant has, likewise."""
        look = self._tenants.pop(tenant, None) or _Look(
            partial(self._engine.counts, tenant=tenant), self._monotonic
        )
        self._tenants[tenant] = look
        if len(self._tenants) > _MOST_TENANTS:
            del self._tenants[next(iter(self._tenants))]
        return await look.latest(_DEADLINE)

    async def is_up(self) -> bool:
        """Whether the store answers within a few seconds. Who asks meanwhile shares a ping."""
        if self._pinging is None:
            self._pinging = asyncio.create_task(self._ping())
        return await asyncio.shield(self._pinging)

    async def readings(self) -> list[Reading]:
        """Whether the store answers, and the view as gauges, if there is one.

        A store that answers and takes long to count is up.
        """
        is_up, view = await asyncio.gather(self.is_up(), self.view())
        up = Reading("engine_up", "Whether the store answers.", (), [((), float(is_up))])
        age = 0.0 if view is None else round(self._monotonic() - view.taken, 3)
        return [up] if view is None else [up, *gauges(view, age)]

    async def _ping(self) -> bool:
        try:
            async with asyncio.timeout(_DEADLINE):
                await self._engine.ping()
        except (LongshoreError, TimeoutError):
            return False
        finally:
            self._pinging = None
        return True

    async def _seen(self) -> View:
        engine = self._engine
        counts = await engine.counts(may_estimate=True)
        breakers, settings = (
            await breaker_settings.every(engine),
            await queue_settings.every(engine),
        )
        fleet = await engine.sessions()
        return View(
            taken=self._monotonic(),
            now=fleet.now,
            counts=counts,
            breakers=breakers,
            sessions=fleet.sessions,
            losses=fleet.losses,
            settings=settings,
        )


class _Look(Generic[T]):
    """What was seen last. Where a look takes long it is made less often."""

    def __init__(self, see: Callable[[], Awaitable[T]], monotonic: Callable[[], float]) -> None:
        self._see = see
        self._monotonic = monotonic
        self._seen: tuple[float, T] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._not_before = 0.0

    async def latest(self, patience: float) -> T | None:
        """As fresh as can be had within `patience` seconds; None if none is worth telling.

        Where there is none yet that is, a new one is waited for until the deadline.
        """
        seen, now = self._seen, self._monotonic()
        if seen is not None and now - seen[0] < _FRESH:
            return seen[1]
        is_worthless = seen is None or now - seen[0] > _OLDEST
        if self._looking is None and now >= self._not_before:
            self._looking = asyncio.create_task(self._look())
        if self._looking is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_DEADLINE if is_worthless else patience):
                    await asyncio.shield(self._looking)
        seen = self._seen
        return None if seen is None or self._monotonic() - seen[0] > _OLDEST else seen[1]

    async def _look(self) -> None:
        began, share = self._monotonic(), _SHARE
        try:
            async with asyncio.timeout(_OLDEST / 2):
                self._seen = (began, await self._see())
        except TimeoutError:
            pass  # too much to count: told by there being no view
        except LongshoreError:
            # Told by there being no view: whoever collects us must not fail with the store.
            share = 0  # it may answer again at any moment, and failing counts nothing
        finally:
            ended = self._monotonic()
            rest = min(max((ended - began) * share, _FRESH), _LONGEST_REST)
            self._not_before = ended + rest
            self._looking = None


def preferred(view: View) -> tuple[list[str], list[str]]:
    """The queues and the types of which is told first, where not all have room.

    That are those of which operators say something, then those that workers serve, then the
    busiest: names that whoever submits may have invented come last.
    """
    queues = [one.queue for one in view.settings]
    queues += sorted(one.queue for one in view.counts if one.is_paused)
    queues += sorted({name for one in view.sessions for name in one.queues})
    queues += [one.queue for one in sorted(view.counts, key=_jobs, reverse=True)]
    types = [one.type for one in view.breakers]
    types += sorted({name for one in view.sessions for name in one.types})
    return list(dict.fromkeys(queues)), list(dict.fromkeys(types))


def _jobs(one: QueueCounts) -> int:
    return one.ready + one.scheduled + one.running


def gauges(view: View, view_age: float = 0.0) -> list[Reading]:
    """The view as a monitor is told of it, `view_age` seconds after it was taken."""
    depth: dict[tuple[str, ...], float] = defaultdict(float)
    age: dict[tuple[str, ...], float] = defaultdict(float)
    paused: dict[tuple[str, ...], float] = defaultdict(float)
    counted = {one.queue for one in view.counts}
    told = set([name for name in preferred(view)[0] if name in counted][:_MOST])
    for one in view.counts:
        queue = one.queue if one.queue in told else OTHER
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
            [((), view_age)],
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
