"""The routes of circuit breakers."""

from typing import Any

import msgspec
from msgspec import UNSET

from longshore.api.encoding import encode
from longshore.api.listing import PageQuery, page
from longshore.api.routing import Answer, Call, Nothing, Route
from longshore.core.account import Scope
from longshore.operations.breakers import (
    BreakerList,
    BreakerOperations,
    BreakerPatch,
    BreakerView,
)
from longshore.operations.fields import Name

__all__ = ["ROUTES"]


class BreakerPath(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a type."""

    type: Name


async def find(call: Call[Nothing, PageQuery, Nothing]) -> Answer:
    """Types that have a circuit breaker, and how it stands, by type."""
    found, cursor = page(
        await _breakers(call).breakers(), call.query, lambda one: (one.type,), of=("breakers",)
    )
    return Answer(200, encode(BreakerList(found, cursor)))


async def get(call: Call[BreakerPath, Nothing, Nothing]) -> Answer:
    """The circuit breaker of a type; one without settings is closed."""
    return Answer(200, encode(await _breakers(call).breaker(call.path.type)))


async def change(call: Call[BreakerPath, Nothing, BreakerPatch]) -> Answer:
    """Override settings of a type's circuit breaker, as a JSON merge patch."""
    said = msgspec.structs.asdict(call.body)
    is_forgotten = said.pop("declared") is None
    given = {field: value for field, value in said.items() if value is not UNSET}
    told = await _breakers(call).set_breaker(
        call.path.type, given, forgets_declared=is_forgotten
    )
    return Answer(200, encode(told))


async def reset(call: Call[BreakerPath, Nothing, Nothing]) -> Answer:
    """Close a type's circuit breaker now, and forget what it has counted."""
    return Answer(200, encode(await _breakers(call).reset_breaker(call.path.type)))


def _breakers(call: Call[Any, Any, Any]) -> BreakerOperations:
    return BreakerOperations(call.service.engine)


ROUTES: tuple[Route[Any, Any, Any], ...] = (
    Route(
        method="GET",
        path="/v1/breakers",
        name="listBreakers",
        handler=find,
        scope=Scope.READ,
        is_fleetwide=True,
        query=PageQuery,
        answers={200: BreakerList},
        problems=("cursor",),
    ),
    Route(
        method="GET",
        path="/v1/breakers/{type}",
        name="getBreaker",
        handler=get,
        scope=Scope.READ,
        is_fleetwide=True,
        parameters=BreakerPath,
        answers={200: BreakerView},
    ),
    Route(
        method="PATCH",
        path="/v1/breakers/{type}",
        name="changeBreaker",
        handler=change,
        scope=Scope.OPERATE,
        is_fleetwide=True,
        parameters=BreakerPath,
        body=BreakerPatch,
        answers={200: BreakerView},
    ),
    Route(
        method="POST",
        path="/v1/breakers/{type}:reset",
        name="resetBreaker",
        handler=reset,
        scope=Scope.OPERATE,
        is_fleetwide=True,
        parameters=BreakerPath,
        answers={200: BreakerView},
    ),
)
