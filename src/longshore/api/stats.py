"""The route of the few numbers that a monitor wants."""

from typing import Any

import msgspec

from longshore.api.encoding import encode
from longshore.api.routing import Answer, Call, Nothing, Route
from longshore.core.account import Scope
from longshore.operations.fields import Name
from longshore.operations.stats import Stats, read_stats

__all__ = ["ROUTES"]


class StatsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of which queue; of all together, unless given."""

    queue: Name | None = None


async def get(call: Call[Nothing, StatsQuery, Nothing]) -> Answer:
    """Depth, age and throughput of a queue, or of all together."""
    service = call.service
    stats = await read_stats(
        service.engine, service.rates, call.caller.tenant, call.query.queue
    )
    return Answer(200, encode(stats))


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
