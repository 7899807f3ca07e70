"""The routes that tell whether the service lives, and whether it has what it needs."""

import asyncio
from typing import Any

import msgspec

from longshore.api.problems import ProblemError, problem
from longshore.api.routing import Answer, Call, Nothing, Route
from longshore.api.views import encode
from longshore.errors import EngineError

__all__ = ["ROUTES", "Health"]

_PATIENCE = 2.0


class Health(msgspec.Struct, frozen=True):
    """All is well."""

    status: str


async def alive(call: Call[Nothing, Nothing, Nothing]) -> Answer:
    """The process answers. It says nothing of the store: see /readyz."""
    return Answer(200, encode(Health("alive")))


async def ready(call: Call[Nothing, Nothing, Nothing]) -> Answer:
    """The service has what it needs; if not, 503 names what is missing."""
    try:
        async with asyncio.timeout(_PATIENCE):
            await call.service.engine.ping()
    except (EngineError, TimeoutError):
        found = problem("not_ready", missing=["engine"])
        raise ProblemError(found, ((b"retry-after", b"1"),)) from None
    return Answer(200, encode(Health("ready")))


ROUTES: tuple[Route[Any, Any, Any], ...] = (
    Route(
        method="GET",
        path="/healthz",
        aliases=("/health",),
        name="getHealth",
        handler=alive,
        answers={200: Health},
    ),
    Route(
        method="GET",
        path="/readyz",
        name="getReadiness",
        handler=ready,
        answers={200: Health},
        problems=("not_ready",),
    ),
)
