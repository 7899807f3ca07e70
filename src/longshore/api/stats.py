"""The route of the few numbers that a monitor wants."""

from typing import Any

import msgspec

from longshore.api.fields import Name
from longshore.api.routing import Answer, Call, Nothing, Route
from longshore.api.views import encode
from longshore.core.account import Scope
from longshore.core.state import State
from longshore.engine import JobFilter, QueueCounts

__all__ = ["ROUTES", "Stats", "StatsQuery"]

_SAMPLED = 200


class StatsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of which queue; of all together, unless given."""

    queue: Name | None = None


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """How much there is, and how fast it goes."""

    ready: int
    running: int
    scheduled: int
    succeeded: int
    dead: int
    cancelled: int
    oldest_age_s: float | None
    """How long the oldest ready job has been waiting."""
    attempts_p99: int | None
    """Starts that 99 in 100 needed at most, of the newest 200 jobs that succeeded."""
    throughput: float | None
    """Jobs that ended per second since this process was last asked, up to a minute ago; null
    the first time."""


async def get(call: Call[Nothing, StatsQuery, Nothing]) -> Answer:
    """Depth, age and throughput of a queue, or of all together."""
    service, tenant, queue = call.service, call.caller.tenant, call.query.queue
    counts = [
        one
        for one in await service.engine.counts(tenant=tenant, may_estimate=True)
        if queue in (None, one.queue)
    ]
    now = await service.engine.now()
    which = JobFilter(tenant=tenant, queue=queue, state=State.SUCCEEDED)
    newest = (await service.engine.find(which, limit=_SAMPLED)).jobs
    starts = sorted(job.attempt for job in newest)
    ended = sum(one.succeeded + one.dead + one.cancelled for one in counts)
    stats = Stats(
        ready=sum(one.ready for one in counts),
        running=sum(one.running for one in counts),
        scheduled=sum(one.scheduled for one in counts),
        succeeded=sum(one.succeeded for one in counts),
        dead=sum(one.dead for one in counts),
        cancelled=sum(one.cancelled for one in counts),
        oldest_age_s=_age(counts, now),
        attempts_p99=starts[(len(starts) * 99) // 100] if starts else None,
        throughput=service.throughput.rate((tenant, queue), now, ended),
    )
    return Answer(200, encode(stats))


def _age(counts: list[QueueCounts], now: int) -> float | None:
    found = [one.oldest_ready_at for one in counts if one.oldest_ready_at is not None]
    return max(now - min(found), 0) / 1e6 if found else None


ROUTES: tuple[Route[Any, Any, Any], ...] = (
    Route(
        method="GET",
        path="/stats",
        aliases=("/v1/stats",),
        name="getStats",
        handler=get,
        scope=Scope.READ,
        query=StatsQuery,
        answers={200: Stats},
    ),
)
