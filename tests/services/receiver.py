"""A real HTTP server on loopback that records what it gets and answers as a test wishes."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

from longshore.core.job import Claim
from longshore.job_context import CURRENT, REPORTER
from longshore.runtime.clock import ManualClock
from longshore.tasks.http import HttpTask
from longshore.tasks.settings import HttpTaskSettings
from longshore.tasks.ssrf import Resolver

# Good for receiver.example, relay.example and localhost; nothing else trusts the authority.
TLS = Path(__file__).parent / "tls"

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Received:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    answer: Answer
    requests: list[Received] = field(default_factory=list)
    connections: int = 0
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            self.requests.append(await read_request(reader))
            await self.answer(writer)
        writer.close()


async def read_request(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip().split("\r\n")
    headers = {
        name.lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    method, target, _ = first.split(" ")
    return Received(method, target, headers, body)


def replies(status: int, body: bytes = b"", **headers: str) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        fields = {"content-length": str(len(body)), "connection": "close", **headers}
        lines = "".join(
            f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items()
        )
        writer.write(f"HTTP/1.1 {status} Said\r\n{lines}\r\n".encode() + body)
        await writer.drain()

    return answer


@asynccontextmanager
async def listening(tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    """A receiver on a port of its own, for as long as the block lasts."""
    receiver = Receiver(answer=replies(200, b"thank you"))
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()


@contextmanager
def running(
    claim: Claim, *, deadline: float = 9e9, clock: ManualClock | None = None
) -> Iterator[None]:
    """The claim's handler is running: `current_job()` answers."""
    slot = SimpleNamespace(claim=claim, deadline=deadline, cancel_requested=False)
    token = CURRENT.set(slot)
    told = REPORTER.set(SimpleNamespace(now=(clock or ManualClock()).now))
    try:
        yield
    finally:
        CURRENT.reset(token)
        REPORTER.reset(told)


def a_task(*, resolve: Resolver | None = None, **settings: object) -> HttpTask:
    """`http.call` in a worker that may call loopback and knows no names."""
    chosen = HttpTaskSettings(**{"allowed_networks": ("127.0.0.0/8",), **settings})
    return HttpTask(chosen, resolve=resolve or nowhere)


async def nowhere(host: str, port: int) -> list[str]:
    raise OSError(f"{host} does not exist")


def at(*addresses: str) -> Resolver:
    async def resolve(host: str, port: int) -> list[str]:
        return list(addresses)

    return resolve
