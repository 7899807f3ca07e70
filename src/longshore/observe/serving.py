"""A port for the monitor: it answers GET /metrics and /healthz, and nothing else."""

import asyncio
import logging
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address

from longshore.errors import ConfigError
from longshore.observe.exposition import MEDIA
from longshore.observe.settings import FIRST_PORT, LAST_PORT, MetricsSettings

__all__ = ["listen", "serving"]

log = logging.getLogger("longshore.metrics")

_PATIENCE = 5.0
_LONGEST = 8_192
_MOST = 32
"""Connections at a time."""

Page = Callable[[], Awaitable[bytes]]


def listen(settings: MetricsSettings) -> socket.socket | None:
    """A socket that listens where the settings say; None where they want none.

    A port that was asked for must be had, else ConfigError. Without one the first free is
    taken, and where none is free the process works unseen, and says so.
    """
    if settings.port == 0:
        return None
    ports = range(FIRST_PORT, LAST_PORT + 1) if settings.port is None else [settings.port]
    reason = ""
    for port in ports:
        try:
            return _opened(settings.host, port)
        except OSError as error:
            reason = f"cannot listen on {settings.host} port {port}: {error.strerror}"
    if settings.port is not None:
        raise ConfigError(f"{reason}; name another: --metrics-port")
    log.warning("no metrics", extra={"reason": reason})
    return None


@asynccontextmanager
async def serving(
    listening: socket.socket | None, page: Page, *, hosts: Collection[str] = ()
) -> AsyncGenerator[None]:
    """Answer inside the block; without a socket nothing. `hosts` are names of this machine."""
    if listening is None:
        yield
        return
    port = _Port(page, hosts)
    server = await asyncio.start_server(port.serve, sock=listening, limit=_LONGEST)
    try:
        yield
    finally:
        server.close()


class _Port:
    def __init__(self, page: Page, hosts: Collection[str]) -> None:
        self._page = page
        self._hosts = frozenset(one.lower() for one in hosts)
        self._open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request, one answer, and the connection is closed."""
        self._open += 1
        try:
            # A client that is slow, silent or speaks something else is not worth a line.
            with suppress(OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
                async with asyncio.timeout(_PATIENCE):
                    writer.write(await self._answer(reader))
                    await writer.drain()
        finally:
            self._open -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        if self._open > _MOST:
            return _response(503, b"too many connections\n")
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return _response(431, b"too long\n")
        first, *rest = head.split(b"\r\n")
        words = first.split()
        if len(words) != 3 or words[0] not in (b"GET", b"HEAD"):
            return _response(405, b"only GET\n")
        if not self._is_for_us(rest):
            return _response(421, b"for another host: metrics.hosts names those of this one\n")
        path = words[1].partition(b"?")[0]
        if path == b"/metrics":
            found = _response(200, await self._page(), MEDIA)
        elif path == b"/healthz":
            found = _response(200, b"alive\n")
        else:
            found = _response(404, b"see /metrics\n")
        return found.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" if words[0] == b"HEAD" else found

    def _is_for_us(self, headers: Iterable[bytes]) -> bool:
        """Whether the request names this machine.

        A web page can have its own name stand for this machine's address, and then read the
        answer (DNS rebinding); it cannot do so with an address, nor with a name of ours.
        """
        named = [
            value.strip().decode("latin-1").lower()
            for name, _, value in (line.partition(b":") for line in headers)
            if name.strip().lower() == b"host"
        ]
        # A browser always says one.
        return not named or (len(named) == 1 and _is_known(named[0], self._hosts))


def _is_known(host: str, names: Collection[str]) -> bool:
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    if name == "localhost" or name in names or "*" in names:
        return True
    try:
        ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


_WORDS = {
    200: b"OK",
    404: b"Not Found",
    405: b"Method Not Allowed",
    421: b"Misdirected Request",
    431: b"Request Header Fields Too Large",
    503: b"Service Unavailable",
}


def _response(status: int, body: bytes, media: bytes = b"text/plain; charset=utf-8") -> bytes:
    return b"\r\n".join(
        [
            b"HTTP/1.1 %d %s" % (status, _WORDS[status]),
            b"content-type: " + media,
            b"content-length: %d" % len(body),
            b"x-content-type-options: nosniff",
            b"connection: close",
            b"",
            body,
        ]
    )


def _opened(host: str, port: int) -> socket.socket:
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    found = socket.create_server((host, port), family=family)
    found.setblocking(False)
    return found
