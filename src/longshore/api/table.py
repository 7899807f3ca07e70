"""The one table of routes: dispatch, gates, the OpenAPI document and the docs come from it."""

from typing import Any

from longshore.api import (
    audit,
    breakers,
    dead,
    docs,
    health,
    jobs,
    lines,
    methods,
    metrics,
    orders,
    queues,
    schedules,
    sessions,
    stats,
    streams,
    tenants,
    webhooks,
)
from longshore.api.routing import Route

__all__ = ["ROUTES"]

ROUTES: tuple[Route[Any, Any, Any], ...] = (
    *jobs.ROUTES,
    *streams.ROUTES,
    *orders.ROUTES,
    *dead.ROUTES,
    *queues.ROUTES,
    *lines.ROUTES,
    *breakers.ROUTES,
    *schedules.ROUTES,
    *stats.ROUTES,
    *metrics.ROUTES,
    *tenants.ROUTES,
    *webhooks.ROUTES,
    *audit.ROUTES,
    *sessions.ROUTES,
    *methods.ROUTES,
    *health.ROUTES,
    *docs.ROUTES,
)
