"""The routes of the document, and a page that shows it."""

from typing import Any

from longshore.api import page
from longshore.api.routing import Answer, Call, Nothing, Route

__all__ = ["ROUTES"]


async def openapi(call: Call[Nothing, Nothing, Nothing]) -> Answer:
    """The OpenAPI document of all routes."""
    return Answer(200, call.service.document())


async def show(call: Call[Nothing, Nothing, Nothing]) -> Answer:
    """A page that shows the document. It loads nothing from anywhere else."""
    policy = (b"content-security-policy", page.POLICY)
    return Answer(200, page.HTML, (policy,), media=b"text/html; charset=utf-8")


ROUTES: tuple[Route[Any, Any, Any], ...] = (
    Route(
        method="GET",
        path="/openapi.json",
        name="getOpenApiDocument",
        handler=openapi,
        answers={200: dict[str, Any]},
    ),
    Route(
        method="GET",
        path="/docs",
        name="getDocsPage",
        handler=show,
        answers={200: str},
        media="text/html",
    ),
)
