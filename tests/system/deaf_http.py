"""A way to the service on which answers go astray after the service has given them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_CHUNK = 1 << 16


class DeafHttp:
    """Passes everything on, but cuts the connection instead of some answers."""

    def __init__(self, port: int, path: bytes, every: int) -> None:
        self._port = port
        self._path = path
        self._every = every
        self._seen = 0
        self._cut: set[asyncio.StreamWriter] = set()
        """Whose next answer goes astray."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.lost = 0
        """Answers that were cut off."""

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        """The port to ask instead."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            there_reader, there = await asyncio.open_connection("127.0.0.1", self._port)
            answers = asyncio.create_task(self._back(there_reader, writer))
            try:
                while request := await reader.read(_CHUNK):
                    if self._path in request:
                        self._seen += 1
                        if self._seen % self._every == 0:
                            self._cut.add(writer)
                    there.write(request)
            finally:
                there.close()
                answers.cancel()
                await asyncio.wait([answers])
        except (OSError, asyncio.CancelledError):
            pass  # cut off by this test, or by its end
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while answer := await reader.read(_CHUNK):
            if writer in self._cut:
                self._cut.discard(writer)
                self.lost += 1
                writer.transport.abort()
                return
            writer.write(answer)
        writer.transport.abort()
