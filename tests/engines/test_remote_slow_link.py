"""The engine over HTTPS at the end of a slow link."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from longshore.client.connection import ServiceConnection
from longshore.runtime.deadline import Deadline
from longshore_lab.wires import Wire

TLS = Path(__file__).parents[1] / "services" / "tls"


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    """A way to a service that answers every request, over TLS."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "server.pem")
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with Wire(("127.0.0.1", server.sockets[0].getsockname()[1])) as wire:
        yield wire
    server.close()


async def test_a_request_is_not_cut_off_while_its_connection_is_made(wire: Wire) -> None:
    """It takes a round trip of 0.4 s; what comes before it is another two or three."""
    context = ssl.create_default_context(cafile=TLS / "authority.pem")
    line = ServiceConnection(
        f"https://localhost:{wire.port}", transport=httpx.AsyncHTTPTransport(verify=context)
    )
    wire.delay(0.2)

    async with Deadline(0.7):
        assert await line.call("GET", "/") == b"{}"
    await line.close()
