"""A way to the server on which one answer, or one request, goes astray.

Only the connection on which a session exchanges is meddled with; it is known by its name.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import Enum

_CHUNK = 1 << 16
_READY = b"Z\0\0\0\5I"
"""The end of an answer, with no transaction open."""
_LANE = b"longshore lane"


class Mishap(Enum):
    """What happens to the next request of a lane. Its client loses the connection."""

    NONE = 0
    ANSWER_LOST = 1
    """The server got it, and is done with it before the client learns of the loss."""
    CUT = 2
    """The server got it, and may still be at it."""
    LATE = 3
    """The server gets it when `deliver` is called."""


class _Link:
    """One client and its session of the server."""

    def __init__(self, client: asyncio.StreamWriter) -> None:
        self.client = client
        self.server: asyncio.StreamWriter
        self.is_deaf = False
        self.is_done = asyncio.Event()

    def cut(self) -> None:
        self.is_deaf = True
        self.client.transport.abort()


class DeafProxy:
    """Stands between an engine and the server."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._tasks: set[asyncio.Task[None]] = set()
        self._late: tuple[_Link, bytes] | None = None
        self.next = Mishap.NONE
        self.before_lane: Callable[[], Awaitable[None]] | None = None
        """Comes between two connections of a lane."""

    async def deliver(self) -> None:
        """The request that was late arrives, and the server is done with it."""
        assert self._late is not None
        (link, request), self._late = self._late, None
        link.server.write(request)
        async with asyncio.timeout(10):
            await link.is_done.wait()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link(writer)
        from_server, link.server = await asyncio.open_unix_connection(self._socket)
        for work in (self._requests(reader, link), self._answers(from_server, link)):
            task = asyncio.create_task(work)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _requests(self, reader: asyncio.StreamReader, link: _Link) -> None:
        try:
            request = await reader.read(_CHUNK)
            is_lane = _LANE in request
            if is_lane and self.before_lane is not None:
                before, self.before_lane = self.before_lane, None
                await before()
            while request:
                if is_lane and self.next is not Mishap.NONE:
                    self._go_wrong(link, request)
                    return
                link.server.write(request)
                request = await reader.read(_CHUNK)
            link.server.close()
        except ConnectionError:
            link.server.close()

    def _go_wrong(self, link: _Link, request: bytes) -> None:
        mishap, self.next = self.next, Mishap.NONE
        if mishap is Mishap.LATE:
            self._late = (link, request)
        else:
            link.server.write(request)
        if mishap is Mishap.ANSWER_LOST:
            link.is_deaf = True
        else:
            link.cut()

    async def _answers(self, reader: asyncio.StreamReader, link: _Link) -> None:
        try:
            while answer := await reader.read(_CHUNK):
                if not link.is_deaf:
                    link.client.write(answer)
                elif answer.endswith(_READY):
                    link.is_done.set()
                    link.cut()
                    break
        except ConnectionError:
            pass
        finally:
            link.server.close()
            link.client.close()


@asynccontextmanager
async def deaf_proxy(socket: str) -> AsyncGenerator[tuple[DeafProxy, int]]:
    """A proxy in front of a server's socket, and its port."""
    proxy = DeafProxy(socket)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    try:
        yield proxy, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await proxy.close()
