"""The connections: what uvicorn leaves open to clients that are slow, silent or large.

It has no deadline for the head or the body of a request, none for a client that does not read
its answer, no limit for the size of a head, and its errors are plain text. One look a second
over all connections is enough; a timer per request would cost more than the rest of this.
"""

import asyncio
import resource
import socket
from enum import Enum
from functools import cache
from http import HTTPStatus
from typing import Any, ClassVar, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from longshore.api import health
from longshore.api.encoding import encode
from longshore.api.problems import problem
from longshore.api.settings import RESERVED, ApiSettings

__all__ = ["GuardedProtocol", "Lookout", "protocol"]

LOOK_S = 1.0
_AT_ONCE, _PAUSE_S = 250, 0.02
_GRACE_S = 1.0
"""How long a service that is about to stop waits for the first request of a connection."""
_RESERVED_S = 2.0
"""How long a connection beyond the cap has for the head of its request."""
_OTHER_FILES = 128
"""Open files that are no clients' connections: those of the store, of logs, of the loop."""
_SIGNS_OF_LIFE = tuple(
    (level, getattr(socket, name), value)
    for level, name, value in (
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 10),
        (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 5),
        (socket.IPPROTO_TCP, "TCP_KEEPCNT", 2),
        (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", 25_000),
    )
    if hasattr(socket, name)
)
"""A client that answers nothing for some twenty seconds is gone."""


class _Phase(Enum):
    IDLE = "idle"
    HEAD = "head"
    BODY = "body"
    SERVED = "served"


class GuardedProtocol(HttpToolsProtocol):
    """A connection that is given up when its client takes too long."""

    settings: ClassVar[ApiSettings] = ApiSettings()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._patience = _patience(self.settings)
        self._phase = _Phase.IDLE
        self._since = self.loop.time()
        self._head_bytes = 0
        self._unread = 0
        self._unread_since = 0.0
        self._leaving_since: float | None = None
        self._is_streaming = False
        self._is_arriving = False
        """Part of a request's body is still to come."""
        self._is_beyond_cap = False
        """It was opened when the process had all the connections that it may have."""

    def connection_made(self, transport: Any) -> None:
        """Refuse a connection too many; notice a client that goes without a word.

        Those just beyond the cap may send one request, for health checks have to get through.
        """
        super().connection_made(transport)
        most = _most_connections(self.settings)
        self._is_beyond_cap = len(self.connections) > most
        if len(self.connections) > most + RESERVED:
            self._refuse("overloaded")
            return
        connected = transport.get_extra_info("socket")
        if connected is not None and connected.family in (socket.AF_INET, socket.AF_INET6):
            for level, option, value in _SIGNS_OF_LIFE:
                connected.setsockopt(level, option, value)

    def begin_stream(self) -> None:
        """The answer goes on for as long as the client is there."""
        self._is_streaming = True

    def abort(self) -> None:
        """Give the client up now."""
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Count what belongs to a head, and give up one that grows too large."""
        if self._phase is _Phase.IDLE:
            self._enter(_Phase.HEAD)
            self._head_bytes = 0
        self._head_bytes += len(data)
        super().data_received(data)
        if self._phase is _Phase.HEAD and self._head_bytes > self.settings.max_header_bytes:
            self._refuse("headers_too_large")

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header. Trailers are dropped: they come after the body, and set nothing.

        Whether they were seen in time would depend on how the bytes arrived, and proxies that
        look at headers do not look at them.
        """
        if not self._is_arriving:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The request is known; what follows is its body."""
        if self._head_bytes > self.settings.max_header_bytes and self._is_head_large():
            self._refuse("headers_too_large")
            return
        if self._is_beyond_cap and self.url.partition(b"?")[0] not in health.PATHS:
            self._refuse("overloaded")
            return
        self._enter(_Phase.BODY)
        self._is_arriving = True
        cast("dict[str, Any]", self.scope)["extensions"] = {"longshore.line": self}
        super().on_headers_complete()
        if self._leaving_since is not None or self._is_beyond_cap:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        """All of the request is here."""
        self._phase = _Phase.SERVED
        self._is_arriving = False
        self._head_bytes = 0
        if self.transport.is_closing():
            return
        # It may have been answered before its body was here.
        if self.cycle.response_complete:
            self._enter(_Phase.IDLE)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The client may ask again."""
        self._is_streaming = False
        # The rest of a body that nobody wanted is read and dropped, within the body's time:
        # a client that has not sent all of it may not look at the answer before.
        if not self._is_arriving:
            self._enter(_Phase.IDLE)
        super().on_response_complete()

    def eof_received(self) -> Any:
        """A client that has said all it wants to say still gets its answer.

        An answer without an end it would never have: it has gone.
        """
        is_under_way = self._phase is _Phase.SERVED and not self._is_streaming
        if is_under_way:
            self.cycle.keep_alive = False
        return is_under_way

    def shutdown(self) -> None:
        """Take no more requests, but for the first one of whoever has just connected.

        It may be on its way; closing now would lose it without an answer.
        """
        if self._phase is _Phase.HEAD or cast("object", self.cycle) is None:
            self._leaving_since = self.loop.time()
        else:
            super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, in the form of every other error."""
        self._refuse("bad_request")

    def look(self, now: float) -> None:
        """Give the client up if it has taken too long."""
        if self.transport.is_closing():
            return
        patience, since = self._patience.get(self._phase), self._since
        if self._leaving_since is not None and self._phase is _Phase.IDLE:
            patience, since = _GRACE_S, self._leaving_since
        elif self._is_beyond_cap and patience is not None:
            patience = min(patience, _RESERVED_S)
        if patience is not None and now - since > patience:
            if self._phase is _Phase.IDLE or self._is_answered():
                self.transport.close()
            else:
                self._refuse("request_timeout")
        self._look_at_unread(now)

    def _look_at_unread(self, now: float) -> None:
        unread = self.transport.get_write_buffer_size()
        if unread == 0 or unread != self._unread:
            self._unread, self._unread_since = unread, now
        elif now - self._unread_since > self.settings.body_timeout.total_seconds():
            self.transport.abort()

    def _enter(self, phase: _Phase) -> None:
        self._phase = phase
        self._since = self.loop.time()

    def _is_answered(self) -> bool:
        """Whether the request whose body is still arriving has had its answer."""
        return self._is_arriving and self.cycle.response_complete

    def _is_head_large(self) -> bool:
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        return size > self.settings.max_header_bytes

    def _refuse(self, code: str) -> None:
        """Answer by ourselves, unless an answer is under way, and close."""
        # Uvicorn begins with None here, whatever it declares.
        cycle = cast("RequestResponseCycle | None", self.cycle)
        is_answering = (
            cycle is not None and cycle.response_started and not cycle.response_complete
        )
        if not self.transport.is_closing():
            if not is_answering:
                self.transport.write(_message(code))
            self.transport.close()


def protocol(settings: ApiSettings) -> type[GuardedProtocol]:
    """The class of connections that heeds these settings: uvicorn makes them by itself."""
    return type("ConfiguredProtocol", (GuardedProtocol,), {"settings": settings})


class Lookout:
    """Looks at every connection about once a second, at some at a time."""

    def __init__(self, connections: set[Any]) -> None:
        self._connections = connections
        self._ahead: list[Any] = []

    async def tick(self) -> float:
        """Look at the next ones; the seconds until those after them."""
        now = asyncio.get_running_loop().time()
        if not self._ahead:
            self._ahead = list(self._connections)
        # Ten thousand at once would hold up a request for as long as the look takes.
        part, self._ahead = self._ahead[:_AT_ONCE], self._ahead[_AT_ONCE:]
        for connection in part:
            cast("GuardedProtocol", connection).look(now)
        return _PAUSE_S if self._ahead else LOOK_S


@cache
def _patience(settings: ApiSettings) -> dict[_Phase, float]:
    """How many seconds a phase may last; what is not there may last as long as it takes."""
    return {
        _Phase.IDLE: settings.idle_timeout.total_seconds(),
        _Phase.HEAD: settings.header_timeout.total_seconds(),
        _Phase.BODY: settings.body_timeout.total_seconds(),
    }


@cache
def _most_connections(settings: ApiSettings) -> int:
    """The cap on connections: as set, and with room for all of them among the open files.

    A process that has no file left can accept nothing, and who connects would wait for ever.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return settings.max_connections
    return max(min(settings.max_connections, files - _OTHER_FILES - RESERVED), 1)


def _message(code: str) -> bytes:
    found = problem(code)
    body = encode(found)
    later = b"retry-after: 1\r\n" if found.status == HTTPStatus.SERVICE_UNAVAILABLE else b""
    return (
        b"HTTP/1.1 %d %s\r\ncontent-type: application/problem+json\r\ncontent-length: %d\r\n"
        b"x-content-type-options: nosniff\r\ncache-control: no-store\r\n%s"
        b"connection: close\r\n\r\n%s"
    ) % (found.status, HTTPStatus(found.status).phrase.encode("ascii"), len(body), later, body)
