"""A pooler in transaction mode, as strict as PgBouncer: each transaction meets another session.

Enough of the protocol to show what breaks behind one: settings of a connection are refused, and
between two transactions nothing of a session stays with its client.
"""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_VERSION, _CANCEL, _SSL = 196608, 80877102, 80877103
_READY = b"Z\0\0\0\5I"
"""And in no transaction."""
_ALLOWED = {"user", "database", "client_encoding", "application_name"}


class Pooler:
    """Clients share a few sessions, and get the one that rested longest."""

    def __init__(self, folder: str, port: str, database: str) -> None:
        self._socket = f"{folder}/.s.PGSQL.{port}"
        self._database = database
        self._sessions: asyncio.Queue[Stream] = asyncio.Queue()
        self._welcome = b""
        self._clients: set[asyncio.Task[object]] = set()

    async def open(self, size: int) -> None:
        for _ in range(size):
            reader, writer = await asyncio.open_unix_connection(self._socket)
            names = f"user\0postgres\0database\0{self._database}\0\0".encode()
            writer.write(struct.pack("!ii", len(names) + 8, _VERSION) + names)
            self._welcome = b""
            while not self._welcome.endswith(_READY):
                self._welcome += await _message(reader)
            self._sessions.put_nowait((reader, writer))

    async def close(self) -> None:
        for task in self._clients:
            task.cancel()
        if self._clients:
            await asyncio.wait(self._clients)
        while not self._sessions.empty():
            await _end(self._sessions.get_nowait()[1])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = asyncio.current_task()
        assert client is not None
        self._clients.add(client)
        try:
            if await self._greet(reader, writer):
                while True:
                    await self._transaction(await _message(reader), (reader, writer))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # it left, or the test is over
        finally:
            self._clients.discard(client)
            await _end(writer)

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        size, code = struct.unpack("!ii", await reader.readexactly(8))
        rest = await reader.readexactly(size - 8)
        if code == _SSL:
            writer.write(b"N")
            return await self._greet(reader, writer)
        if code == _CANCEL:
            return False
        unknown = set(rest.decode().rstrip("\0").split("\0")[::2]) - _ALLOWED
        if unknown:
            text = f"unsupported startup parameter: {unknown.pop()}"
            fields = f"SFATAL\0C08P01\0M{text}\0\0".encode()
            writer.write(b"E" + struct.pack("!i", len(fields) + 4) + fields)
            return False
        writer.write(self._welcome)
        return True

    async def _transaction(self, message: bytes, client: Stream) -> None:
        session = await self._sessions.get()
        session[1].write(message)
        asking = asyncio.create_task(_pump(client[0], session[1]))
        try:
            while (answer := await _message(session[0])) != _READY:
                client[1].write(answer)
        except BaseException:
            await _end(session[1])
            await self.open(1)
            raise
        finally:
            # The client waits for the last answer, so nothing of it is half read here.
            asking.cancel()
            await asyncio.wait([asking])
        self._sessions.put_nowait(session)
        client[1].write(answer)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            writer.write(await _message(reader))
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()  # and so the session ends with its client


async def _message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(5)
    message = head + await reader.readexactly(struct.unpack("!i", head[1:])[0] - 4)
    if head[:1] == b"X":
        raise ConnectionResetError
    return message


async def _end(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


@asynccontextmanager
async def pooled(url: str, *, sessions: int = 3) -> AsyncIterator[str]:
    """The URL of the same database behind a pooler."""
    place, _, query = url.partition("?host=")
    folder, _, port = query.partition("&port=")
    database = place.rpartition("/")[2]
    pooler = Pooler(folder, port, database)
    await pooler.open(sessions)
    server = await asyncio.start_server(pooler.serve, "127.0.0.1", 0)
    here = server.sockets[0].getsockname()[1]
    try:
        yield f"postgresql://postgres@127.0.0.1:{here}/{database}"
    finally:
        server.close()
        await pooler.close()
