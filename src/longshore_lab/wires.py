"""The wire between processes and a server, and what goes wrong with it.

    async with Wire(("127.0.0.1", 5432)) as wire:
        ...                       # connect to 127.0.0.1, port wire.port
        wire.lose_answers()

Every connection goes through one loop, on loopback only. A fault changes what happens to bytes
from that moment on, and `heal` makes the wire whole again.
"""

import asyncio
import re
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

__all__ = ["Trips", "Wire"]

_ROOM = 65_536
_ABORT = struct.pack("ii", 1, 0)
_NAME = re.compile(rb"application_name\0([^\0]*)\0")
_MOST_UNDER_WAY = 256
_GOODBYE = b"X\0\0\0\4"
"""What a client of PostgreSQL sends before it closes, without waiting for an answer."""


class _Strand:
    """One connection: the side of the client and the side of the server."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client = client
        self.server = server
        self.is_deaf = False
        """Answers are lost, and with the first of them the connection."""
        self.is_half_open = False
        """The server's side is gone, and the client's does not know."""
        self.trips = Trips()


class Trips:
    """Counts the round trips of one connection, that of opening it included."""

    def __init__(self) -> None:
        self.name = ""
        """What the client calls itself, if it speaks PostgreSQL's protocol in the clear."""
        self.count = 1
        self._is_answered = True

    def asked(self, some: bytes) -> None:
        """The client sent this."""
        if not self.name and (found := _NAME.search(some)):
            self.name = found[1].decode()
        if self._is_answered and some != _GOODBYE:
            self.count += 1
            self._is_answered = False

    def answered(self) -> None:
        """The server sent something."""
        self._is_answered = True


class Wire:
    """A TCP proxy that can be told to misbehave; the server may have a socket in a folder."""

    def __init__(self, server: tuple[str, int] | Path) -> None:
        self._server = server
        self._strands: set[_Strand] = set()
        self._arriving: set[asyncio.StreamWriter] = set()
        """Clients whose connection is on its way."""
        self._is_closed = False
        self._pumps: set[asyncio.Task[None]] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._delay = 0.0
        self._refuses = False
        self.port = 0
        self.trips: list[Trips] = []
        """Of each connection that there was, in the order in which they were opened."""

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_closed = True
        self._listener.close()
        for client in self._arriving:
            _abort(client)
        for strand in list(self._strands):
            self._reset(strand)
        for pump in list(self._pumps):
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    def lead_to(self, server: tuple[str, int] | Path) -> None:
        """New connections go to another server; those that there are stay as they are."""
        self._server = server

    def delay(self, seconds: float) -> None:
        """Whatever is sent arrives so much later, in both directions.

        As on a long cable: much can be on its way at once, and opening a connection takes a
        round trip before anything can be sent.
        """
        self._delay = seconds

    def reset(self) -> None:
        """Every connection is reset at once."""
        for strand in list(self._strands):
            self._reset(strand)

    def refuse(self) -> None:
        """The same, and new connections are reset too."""
        self._refuses = True
        self.reset()

    def swallow(self) -> None:
        """Nothing arrives any more, in either direction; it does when the wire is healed."""
        self._flows.clear()

    def leave_half_open(self) -> None:
        """The server's side of every connection is closed, and no client ever hears of it."""
        for strand in list(self._strands):
            strand.is_half_open = True
            strand.server.transport.abort()

    def lose_answers(self) -> None:
        """What is sent is carried out, and in place of the next answer comes a reset."""
        for strand in list(self._strands):
            strand.is_deaf = True

    def heal(self) -> None:
        """Whole again. What was half open stays so: nobody will ever tell the client."""
        self._delay = 0.0
        self._refuses = False
        self._flows.set()

    @property
    def connections(self) -> int:
        """How many there are."""
        return len(self._strands)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            _abort(writer)
            return
        self._arriving.add(writer)
        try:
            await asyncio.sleep(2 * self._delay)
            await self._flows.wait()
            if self._is_closed:
                return
            theirs, server = await self._reach()
        except OSError:
            _abort(writer)
            return
        finally:
            self._arriving.discard(writer)
        if self._is_closed:
            _abort(writer)
            server.transport.abort()
            return
        strand = _Strand(writer, server)
        self._strands.add(strand)
        self.trips.append(strand.trips)
        for pump in (self._ask(strand, reader), self._answer(strand, theirs)):
            task = asyncio.create_task(pump)
            self._pumps.add(task)
            task.add_done_callback(self._pumps.discard)

    async def _ask(self, strand: _Strand, reader: asyncio.StreamReader) -> None:
        async def arrive(some: bytes) -> bool:
            if not strand.is_half_open:
                strand.server.write(some)
                await strand.server.drain()
            return True

        with suppress(OSError):
            await self._carry(reader, strand.trips.asked, arrive)
        self._reset(strand)

    async def _answer(self, strand: _Strand, reader: asyncio.StreamReader) -> None:
        async def arrive(some: bytes) -> bool:
            if strand.is_deaf:
                return False
            strand.client.write(some)
            await strand.client.drain()
            return True

        with suppress(OSError):
            await self._carry(reader, lambda some: strand.trips.answered(), arrive)
        if not strand.is_half_open:
            self._reset(strand)

    async def _carry(
        self,
        reader: asyncio.StreamReader,
        note: Callable[[bytes], None],
        arrive: Callable[[bytes], Awaitable[bool]],
    ) -> None:
        """Let everything arrive after the delay, in its order, until an end or a refusal."""
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_MOST_UNDER_WAY)
        loop = asyncio.get_running_loop()

        async def send() -> None:
            some = b"."
            while some:
                try:
                    some = await reader.read(_ROOM)
                except OSError:
                    some = b""
                if some:
                    note(some)
                await under_way.put((loop.time() + self._delay, some))

        sending = asyncio.create_task(send())
        try:
            while True:
                due, some = await under_way.get()
                await asyncio.sleep(due - loop.time())
                await self._flows.wait()
                if not some or not await arrive(some):
                    return
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._server, Path):
            return await asyncio.open_unix_connection(self._server)
        return await asyncio.open_connection(*self._server)

    def _reset(self, strand: _Strand) -> None:
        self._strands.discard(strand)
        _abort(strand.client)
        strand.server.transport.abort()


def _abort(writer: asyncio.StreamWriter) -> None:
    """Close with a reset: whoever waits at the other end learns it at once."""
    line = writer.get_extra_info("socket")
    if line is not None:
        with suppress(OSError):
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
    writer.transport.abort()
