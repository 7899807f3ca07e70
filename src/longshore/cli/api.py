"""The HTTP service as a process, or as a part of one."""

import asyncio
import logging
import signal
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from longshore.api.context import Service
from longshore.app import Longshore
from longshore.cli import wiring
from longshore.core.units import microseconds
from longshore.errors import ConfigError
from longshore.operations import deliveries
from longshore.settings import Settings
from longshore.worker.signals import drained_by_signals

try:
    from longshore.api import http_server
except ModuleNotFoundError:
    # The extra is not installed, which only those have to hear who ask for the service.
    http_server = None

__all__ = ["address", "beside", "listen", "listen_if_possible", "refuse_keyless", "serve"]

log = logging.getLogger("longshore.cli")


def listen(settings: Settings) -> socket.socket:
    """A socket that listens where the settings say, or ConfigError."""
    if http_server is None:
        raise ConfigError(
            'the HTTP service needs an extra: pip install "longshore[api]"; then try again'
        )
    return http_server.listen(settings.api)


def listen_if_possible(settings: Settings, *, is_wanted: bool) -> socket.socket | None:
    """The same for who can do without: None without the extra, or when the port is taken.

    A port that was asked for by name must be had.
    """
    if http_server is None and not is_wanted:
        return None
    try:
        return listen(settings)
    except ConfigError as error:
        if is_wanted:
            raise
        log.warning("no HTTP service", extra={"reason": str(error)})
        return None


def address(listening: socket.socket) -> str:
    """Where it can be reached."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def refuse_keyless(app: Longshore, settings: Settings) -> None:
    """ConfigError where others could reach a service that asks nobody for a key."""
    assert http_server is not None
    if not http_server.is_loopback(settings.api.host):
        async with app:
            await http_server.refuse_keyless(app.engine, settings.api.host)


async def serve(
    app: Longshore,
    settings: Settings,
    listening: socket.socket,
    on_ready: Callable[[], None] = lambda: None,
) -> bool:
    """Serve until a signal; True when it was one that asks to begin again.

    It promotes and reclaims too: workers that have nothing but their sessions cannot.
    """
    assert http_server is not None
    is_renewed = False

    def renew() -> None:
        nonlocal is_renewed
        is_renewed = True
        server.hand_over()

    async with app:
        wiring.refuse_private(app.store)
        server = http_server.ApiServer(
            _service(app, settings),
            is_local=http_server.is_loopback(settings.api.host),
        )
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, renew)
        with drained_by_signals(server):
            ticks = wiring.recovery(app.engine, lease=microseconds(settings.worker.lease))
            await server.run(listening, on_ready=on_ready, ticks=ticks)
    return is_renewed


@asynccontextmanager
async def beside(
    app: Longshore, settings: Settings, listening: socket.socket | None
) -> AsyncGenerator[None]:
    """Serve beside a worker in the same process, inside the block; without a socket nothing."""
    if http_server is None or listening is None:
        yield
        return
    server = http_server.ApiServer(_service(app, settings), is_local=True)
    task = asyncio.create_task(server.run(listening))
    try:
        yield
    finally:
        server.drain()
        await task


def _service(app: Longshore, settings: Settings) -> Service:
    return Service(
        app.engine,
        settings.api,
        wiring.CLOCK,
        tells_who=settings.audit.transitions,
        retention=settings.scheduler.retention,
        webhook_guard=deliveries.guard_of(settings.webhooks),
    )
