"""The port on which a worker, a scheduler or a relay tells its numbers."""

import logging
import socket
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from longshore.app import Longshore
from longshore.observe.metrics import Metrics
from longshore.observe.overview import Overview
from longshore.observe.serving import listen, serving
from longshore.observe.settings import MetricsSettings
from longshore.operations.outbox_alarm import Standing

__all__ = ["Port", "at", "neighbours", "noting", "opened", "told"]

log = logging.getLogger("longshore.cli")


@dataclass(frozen=True, slots=True)
class Port:
    """A socket that listens for the monitor, and where the processes behind it count."""

    listening: socket.socket | None = None
    folder: Path | None = None
    hosts: tuple[str, ...] = ()
    """Names that the monitor may ask for."""

    @property
    def sockets(self) -> list[socket.socket]:
        """What every process behind it inherits."""
        return [] if self.listening is None else [self.listening]

    @property
    def words(self) -> list[str]:
        """How such a process is told of it."""
        port = [] if self.listening is None else ["--metrics-fd", f"{self.listening.fileno()}"]
        folder = [] if self.folder is None else ["--metrics-folder", f"{self.folder}"]
        return port + folder

    def announce(self) -> None:
        """Say where to scrape."""
        if self.listening is not None:
            host, port = self.listening.getsockname()[:2]
            name = f"[{host}]" if ":" in host else host
            log.info("metrics served", extra={"address": f"http://{name}:{port}/metrics"})


def opened(settings: MetricsSettings, fd: int | None, folder: Path | None) -> Port:
    """The port that the settings want, or the one that was inherited."""
    if folder is not None:
        listening = None if fd is None else socket.socket(fileno=fd)
        return Port(listening, folder, settings.hosts)
    return Port(listen(settings), hosts=settings.hosts)


@contextmanager
def neighbours(port: Port) -> Generator[Port]:
    """The same port for several processes, each of which tells what all have counted."""
    port.announce()
    with tempfile.TemporaryDirectory(prefix="longshore-metrics-") as folder:
        yield Port(port.listening, Path(folder), port.hosts)


def at(app: Longshore, port: Port) -> None:
    """Have the app count where the port looks. Before it is open."""
    if port.folder is not None:
        app.metrics = Metrics(port.folder)


def noting(app: Longshore) -> Callable[[Standing], None]:
    """Who writes down how consumers of the outbox stand."""

    def note(found: Standing) -> None:
        app.metrics.outbox_lag.set(found.lag_seconds)
        app.metrics.outbox_depth.set(found.behind)
        if found.is_muted is not None:
            app.metrics.outbox_muted.set(int(found.is_muted))

    return note


@asynccontextmanager
async def told(app: Longshore, port: Port, *, of_queue: bool = False) -> AsyncGenerator[None]:
    """Answer the monitor inside the block, of the queue as a whole too if so wished.

    That is one process's part: what is true of the queue is true for all, and counting it
    takes the engine's time.
    """
    overview = Overview(app.engine) if of_queue else None

    async def page() -> bytes:
        readings = [] if overview is None else await overview.readings()
        return app.metrics.text(readings)

    async with serving(port.listening, page, hosts=port.hosts):
        # Of several, whoever started them has said it.
        if port.folder is None:
            port.announce()
        yield
