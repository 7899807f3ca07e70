"""The one table of routes: dispatch, gates, the OpenAPI document and the docs come from it."""

from typing import Any

from longshore.api import docs, health, jobs
from longshore.api.routing import Route

__all__ = ["ROUTES"]

ROUTES: tuple[Route[Any, Any, Any], ...] = (
    *jobs.ROUTES,
    *health.ROUTES,
    *docs.ROUTES,
)
