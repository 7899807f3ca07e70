"""The routes that tell whether the service lives, and whether it has what it needs."""

from typing import Any

import msgspec

from longshore.api.encoding import encode
from longshore.api.problems import ProblemError, problem
from longshore.api.routing import Answer, Call, Nothing, Route
from longshore.errors import EngineError
from longshore.operations.fields import Timestamp, instant
from longshore.runtime.deadline import Deadline

__all__ = ["PATHS", "ROUTES", "Health", "Readiness"]

_PATIENCE = 2.0
_LONGEST = 15.0
"""With a connection that has to be set up first: a probe that gave up gets the next answer."""


class Health(msgspec.Struct, frozen=True):
    """All is well."""

    status: str


class Readiness(msgspec.Struct, frozen=True):
    """The service has what it needs."""

    status: str
    now: Timestamp
    """By the clock of the store, which decides what is due and whose lease is over."""


async def alive(call: Call[Nothing, Nothing, Nothing]) -> Answer:
    """The process answers. It says nothing of the store: see /readyz."""
    return Answer(200, encode(Health("alive")))


async def ready(call: Call[Nothing, Nothing, Nothing]) -> Answer:
    """The service has what it needs; if not, 503 names what is missing."""
    try:
        async with Deadline(_PATIENCE, at_most=_LONGEST):
            await call.service.engine.ping()
            now = await call.service.engine.now()
    except (EngineError, TimeoutError):
        found = problem("not_ready", missing=["engine"])
        raise ProblemError(found, ((b"retry-after", b"1"),)) from None
    return Answer(200, encode(Readiness("ready", instant(now))))


ROUTES: tuple[Route[Any, Any, Any], ...] = (
    Route(
        method="GET",
        path="/healthz",
        aliases=("/health",),
        name="getHealth",
        handler=alive,
        answers={200: Health},
        is_health=True,
    ),
    Route(
        method="GET",
        path="/readyz",
        name="getReadiness",
        handler=ready,
        answers={200: Readiness},
        problems=("not_ready",),
        is_health=True,
    ),
)
PATHS = frozenset(
    path.encode("ascii") for route in ROUTES for path in (route.path, *route.aliases)
)
"""What health checks ask for."""
