"""The one table of routes: dispatch, gates, the OpenAPI document and the docs come from it."""

from typing import Any

from longshore.api import (
    audit,
    breakers,
    broken_records,
    bulk,
    dead,
    declarations,
    docs,
    doctor,
    health,
    jobs,
    metrics,
    ordering_keys,
    outbox,
    queues,
    schedules,
    sessions,
    stats,
    streams,
    tenants,
    webhooks,
)
from longshore.api.routing import Route
from longshore.errors import ConfigError

__all__ = ["ROUTES", "routes_of"]

ROUTES: tuple[Route[Any, Any, Any], ...] = (
    *jobs.ROUTES,
    *streams.ROUTES,
    *bulk.ROUTES,
    *dead.ROUTES,
    *queues.ROUTES,
    *ordering_keys.ROUTES,
    *breakers.ROUTES,
    *broken_records.ROUTES,
    *schedules.ROUTES,
    *declarations.ROUTES,
    *stats.ROUTES,
    *metrics.ROUTES,
    *outbox.ROUTES,
    *doctor.ROUTES,
    *tenants.ROUTES,
    *webhooks.ROUTES,
    *audit.ROUTES,
    *sessions.ROUTES,
    *health.ROUTES,
    *docs.ROUTES,
)

_PARTS: dict[str, tuple[Route[Any, Any, Any], ...]] = {
    "sessions": (
        *sessions.ROUTES,
        *metrics.ROUTES,
        *health.ROUTES,
        *docs.ROUTES,
    ),
}


def routes_of(only: str | None) -> tuple[Route[Any, Any, Any], ...]:
    """The routes of a service that serves this part alone, or ConfigError; None: all."""
    if only is None:
        return ROUTES
    if only not in _PARTS:
        raise ConfigError(f"api.only is {only!r:.80}; it can be {', '.join(_PARTS)}")
    return _PARTS[only]
