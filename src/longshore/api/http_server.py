"""The server around the application: sockets, deadlines, and how it stops."""

import asyncio
import logging
import socket
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from ipaddress import ip_address

import uvicorn

from longshore.api import connection_limits
from longshore.api.application import Application
from longshore.api.context import Service
from longshore.api.routes import routes_of
from longshore.api.settings import ApiSettings
from longshore.contract import Records
from longshore.errors import ConfigError, EngineError
from longshore.records import api_keys
from longshore.runtime.ticker import Beat, Tick

__all__ = ["ApiServer", "is_loopback", "listen", "refuse_keyless"]

log = logging.getLogger("longshore.api")
# It tells of every process that starts and every request that is not HTTP; the first is told
# by whoever runs us, the second would let anyone fill the log.
logging.getLogger("uvicorn.error").setLevel(logging.ERROR)

_BACKLOG = 2_048


class ApiServer:
    """Serves an application on a socket until it is told to go."""

    def __init__(self, service: Service, *, is_local: bool) -> None:
        settings = service.settings
        self._service = service
        self._listening: socket.socket | None = None
        self.application = Application(
            service, is_local=is_local, routes=routes_of(settings.only)
        )
        self._server = _Uvicorn(
            uvicorn.Config(
                self.application,
                http=connection_limits.protocol(settings),
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=round(settings.idle_timeout.total_seconds()),
                timeout_graceful_shutdown=round(settings.drain_timeout.total_seconds()),
            )
        )

    async def run(
        self,
        listening: socket.socket,
        *,
        on_ready: Callable[[], None] = lambda: None,
        ticks: Sequence[tuple[str, Tick]] = (),
    ) -> None:
        """Serve until `drain` or `stop_now`, and then until what is under way is answered.

        Draining closes the socket, so that connections are refused; `hand_over` does not.
        `ticks` are run beside it, by name.
        """
        self._listening = listening
        self._server.on_ready = on_ready
        connections = self._server.server_state.connections
        beats = [
            Beat("connections", connection_limits.Lookout(connections).tick),
            Beat("keys", self.application.admission.note_uses),
            Beat("streams", self.application.end_revoked_streams),
            Beat("submissions", self._service.submissions.tick),
            Beat("labels", self._service.prefer_labels),
            *(Beat(name, tick) for name, tick in ticks),
        ]
        tasks = [asyncio.create_task(beat.run()) for beat in beats]
        try:
            await self._server.serve(sockets=[listening.dup()])
        finally:
            for beat in beats:
                beat.stop()
            await asyncio.gather(*tasks)
            await self._tell_submissions()

    async def _tell_submissions(self) -> None:
        try:
            await self._service.submissions.tell_all()
        except EngineError as error:
            log.warning("the audit log lacks the last submits", extra={"error": str(error)})

    def drain(self) -> None:
        """Take no more connections, answer what is under way, and go.

        What only waits is answered now: it would hold us up, and can wait somewhere else.
        """
        self._stop_listening()
        self.hand_over()

    def hand_over(self) -> None:
        """Drain, and leave the socket open: connections wait there for who serves it next."""
        self._service.leave()
        self._server.should_exit = True

    def stop_now(self) -> None:
        """Go."""
        self._stop_listening()
        self._service.leave()
        self._server.should_exit = True
        self._server.force_exit = True

    def _stop_listening(self) -> None:
        if self._listening is not None:
            self._listening.close()


class _Uvicorn(uvicorn.Server):
    """Uvicorn's server, which leaves signals to whoever runs it."""

    on_ready: Callable[[], None] = staticmethod(lambda: None)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to take connections, and say so."""
        await super().startup(sockets)
        self.on_ready()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def listen(settings: ApiSettings) -> socket.socket:
    """A socket that listens where the settings say, or ConfigError."""
    routes_of(settings.only)  # whoever cannot serve need not listen
    host, port = settings.host, settings.port
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        found = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"cannot listen on {host} port {port}: {reason}") from None
    found.setblocking(False)
    return found


def is_loopback(host: str) -> bool:
    """Only this machine can reach the address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


async def refuse_keyless(engine: Records, host: str) -> None:
    """ConfigError where others could reach a service that asks nobody for a key."""
    if not is_loopback(host) and not await api_keys.every(engine):
        raise ConfigError(
            f"{host} can be reached from other machines, and the store has no API key; "
            "make one first (`longshore keys create`), or listen on 127.0.0.1"
        )
