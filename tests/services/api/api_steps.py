"""Steps that the tests of the HTTP service share."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from longshore.api.application import Application
from longshore.api.context import Service
from longshore.api.http_server import ApiServer, listen
from longshore.api.settings import ApiSettings
from longshore.contract import Engine

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


@asynccontextmanager
async def served(engine: Engine, **options: Any) -> AsyncIterator[tuple[str, int]]:
    """The service on a real socket, with these settings; its host and port."""
    settings = ApiSettings(port=0, **options)
    server = ApiServer(Service(engine, settings), is_local=True)
    listening = listen(settings)
    ready = asyncio.Event()
    task = asyncio.create_task(server.run(listening, on_ready=ready.set))
    host, port = listening.getsockname()
    await ready.wait()
    try:
        yield host, port
    finally:
        server.drain()
        await task


async def exchange(address: tuple[str, int], raw: bytes) -> tuple[int, bytes]:
    """Send these bytes, and read until the server closes: the status and all it said."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(raw)
        await writer.drain()
        said = await asyncio.wait_for(reader.read(), 20)
    finally:
        writer.close()
    return int(said.split()[1]) if said else 0, said
