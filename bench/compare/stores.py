"""The servers under the peers: one fresh store for each trial, on the loopback only."""

import asyncio
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from longshore_lab.servers import PostgresServer

__all__ = ["DURABILITY", "Store", "fresh"]

DURABILITY = {
    "PostgreSQL": "on commit: fsync and synchronous_commit are on",
    "SQLite": "on commit: synchronous=full",
    "Valkey": "within a second: appendonly, appendfsync everysec",
}
_START_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Store:
    """Where a peer keeps its jobs, and the server that does it."""

    url: str
    pids: tuple[int, ...]
    """The roots of the server's processes; none if the store is a file."""

    def rest(self) -> None:
        """Do at once what a server does by itself within a minute of a great change."""
        if self.url.startswith("postgresql"):
            asyncio.run(_vacuum(self.url))


@contextmanager
def fresh(kind: str, valkey: Path | None) -> Iterator[Store]:
    """An empty store; it ends with the block."""
    with tempfile.TemporaryDirectory(prefix="compare-store-") as name:
        if kind == "PostgreSQL":
            with PostgresServer(durable=True, settings={"max_connections": "200"}) as server:
                yield Store(server.url(tcp=True), (server.pid,))
        elif kind == "SQLite":
            yield Store(f"sqlite:///{name}/jobs.db", ())
        elif valkey is not None:
            with _valkey(valkey, name) as store:
                yield store
        else:
            raise ValueError("a peer on Valkey needs its server")


async def _vacuum(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("vacuum analyze")
    finally:
        await connection.close()


@contextmanager
def _valkey(program: Path, folder: str) -> Iterator[Store]:
    port = _free_port()
    settings = {
        "bind": "127.0.0.1",
        "port": str(port),
        "dir": folder,
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory-policy": "noeviction",
    }
    command = [str(program)]
    for key, value in settings.items():
        command += [f"--{key}", value]
    with Path(folder, "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        _wait_for(port)
        yield Store(f"redis://127.0.0.1:{port}/0", (server.pid,))
    finally:
        server.kill()
        server.wait()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                if connection.recv(16).startswith(b"+PONG"):
                    return
        except OSError:
            pass
        if time.monotonic() > deadline:
            raise TimeoutError("Valkey did not start")
        time.sleep(0.02)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
