"""Steps that the tests of the HTTP service share."""

from typing import Any

import httpx

from longshore.api.application import Application

UNKNOWN = "019a8a6e-7c00-7000-8000-000000000000"
"""An id that no job has."""


def asking(application: Application, **options: Any) -> httpx.AsyncClient:
    """A client of this very application."""
    transport = httpx.ASGITransport(application, client=("127.0.0.1", 1))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", **options)


def shown(answer: httpx.Response) -> list[tuple[str, str]]:
    """The headers, without those that are new in every answer."""
    return [
        one for one in answer.headers.multi_items() if one[0] not in ("date", "x-request-id")
    ]
