"""The wire between processes and a server, and what goes wrong with it.

    async with Wire(("127.0.0.1", 5432)) as wire:
        ...                       # connect to 127.0.0.1, port wire.port
        wire.lose_answers()

Every connection goes through one loop, on loopback only. A fault changes what happens to bytes
from that moment on, and `heal` makes the wire whole again.
"""

import asyncio
import socket
import struct
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

__all__ = ["Wire"]

_ROOM = 65_536
_ABORT = struct.pack("ii", 1, 0)


class _Strand:
    """One connection: the side of the client and the side of the server."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client = client
        self.server = server
        self.is_deaf = False
        """Answers are lost, and with the first of them the connection."""
        self.is_half_open = False
        """The server's side is gone, and the client's does not know."""


class Wire:
    """A TCP proxy that can be told to misbehave; the server may have a socket in a folder."""

    def __init__(self, server: tuple[str, int] | Path) -> None:
        self._server = server
        self._strands: set[_Strand] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._delay = 0.0
        self._refuses = False
        self.port = 0

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
        self._listener.close()
        for strand in list(self._strands):
            self._reset(strand)
        for pump in list(self._pumps):
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    def delay(self, seconds: float) -> None:
        """Whatever is sent arrives so much later, in both directions."""
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
        await self._flows.wait()
        try:
            theirs, server = await self._reach()
        except OSError:
            _abort(writer)
            return
        strand = _Strand(writer, server)
        self._strands.add(strand)
        for pump in (self._ask(strand, reader), self._answer(strand, theirs)):
            task = asyncio.create_task(pump)
            self._pumps.add(task)
            task.add_done_callback(self._pumps.discard)

    async def _ask(self, strand: _Strand, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while some := await reader.read(_ROOM):
                await self._travel()
                if not strand.is_half_open:
                    strand.server.write(some)
                    await strand.server.drain()
        self._reset(strand)

    async def _answer(self, strand: _Strand, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while some := await reader.read(_ROOM):
                await self._travel()
                if strand.is_deaf:
                    break
                strand.client.write(some)
                await strand.client.drain()
        if not strand.is_half_open:
            self._reset(strand)

    async def _travel(self) -> None:
        if self._delay:
            await asyncio.sleep(self._delay)
        await self._flows.wait()

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
