"""The routes for machines that watch: a monitor, a scaler, and who looks for what is slow."""

from typing import Annotated, Any

import msgspec

from longshore.api.encoding import encode
from longshore.api.problems import ProblemError, problem
from longshore.api.routing import Answer, Call, Nothing, Route
from longshore.core.account import Scope
from longshore.observe.exposition import MEDIA
from longshore.operations.fields import Name, Tag
from longshore.operations.stats import SlowList, StatsOperations

__all__ = ["ROUTES"]


class AutoscaleQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of which queue; of all together, unless given."""

    queue: Name | None = None


class Autoscale(msgspec.Struct, frozen=True, kw_only=True):
    """How much work there is for workers. Where counting is dear, it is an estimate."""

    value: int
    """Jobs that run or could: what a scaler divides by the jobs that one worker should have."""
    ready: int
    """Of these, those that wait for a worker. What is parked or paused does not."""
    running: int
    oldest_age_s: float
    """How long the oldest ready job has been waiting, paused queues left out; 0: none is."""
    workers: int
    """Sessions of workers that take jobs, of any queue where none is named."""


class SlowQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of which jobs."""

    queue: Name | None = None
    type: Name | None = None
    tag: Tag | None = None
    sample: Annotated[int, msgspec.Meta(ge=1, le=2_000)] = 500
    """Of the newest jobs that succeeded so many, and as many that are dead."""


async def slow(call: Call[Nothing, SlowQuery, Nothing]) -> Answer:
    """Where the time of jobs went, by type: into waiting for a worker or into running."""
    stats = StatsOperations(call.service.engine, tenant=call.caller.tenant)
    found = await stats.slow_types(**msgspec.structs.asdict(call.query))
    return Answer(200, encode(SlowList(found)))


async def metrics(call: Call[Nothing, Nothing, Nothing]) -> Answer:
    """Numbers for Prometheus: of this service's processes together, and of the whole queue.

    Workers and schedulers tell theirs on a port of their own.
    """
    service = call.service
    readings = await service.overview.readings()
    return Answer(200, service.metrics.text(readings), media=MEDIA)


async def autoscale(call: Call[Nothing, AutoscaleQuery, Nothing]) -> Answer:
    """What a scaler such as KEDA's metrics-api asks for; `value` is where it looks.

    Counting may take a moment, which is waited for; after a few seconds the last count of the
    past two minutes is told, and without one 503.
    """
    service, queue, tenant = call.service, call.query.queue, call.caller.tenant
    view = await service.overview.fresh_view()
    counts = view and view.counts
    if tenant is not None:
        counts = await service.overview.fresh_counts_of(tenant)
    if view is None or counts is None:
        # Not a zero, which would send the workers away.
        raise ProblemError(problem("engine_unavailable"), ((b"retry-after", b"1"),))
    named = [one for one in counts if queue in (None, one.queue)]
    served = [one for one in named if not one.is_paused]
    ready = sum(one.ready - one.parked for one in served)
    running = sum(one.running for one in named)
    oldest = [one.oldest_ready_at for one in served if one.oldest_ready_at is not None]
    found = Autoscale(
        value=ready + running,
        ready=ready,
        running=running,
        oldest_age_s=max(view.now - min(oldest), 0) / 1e6 if oldest else 0.0,
        workers=sum(
            not one.is_quiet and (queue is None or queue in one.queues) for one in view.sessions
        ),
    )
    return Answer(200, encode(found))


ROUTES: tuple[Route[Any, Any, Any], ...] = (
    Route(
        method="GET",
        path="/metrics",
        name="getMetrics",
        handler=metrics,
        scope=Scope.READ,
        is_fleetwide=True,
        answers={200: str},
        media="text/plain",
    ),
    Route(
        method="GET",
        path="/v1/autoscale",
        name="getAutoscale",
        handler=autoscale,
        scope=Scope.READ,
        query=AutoscaleQuery,
        answers={200: Autoscale},
    ),
    Route(
        method="GET",
        path="/v1/slow",
        name="getSlowTypes",
        handler=slow,
        scope=Scope.READ,
        query=SlowQuery,
        answers={200: SlowList},
    ),
)
