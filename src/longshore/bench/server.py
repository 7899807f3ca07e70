"""What an engine's server used: processor time, where it runs on this machine, and its log."""

import asyncio
import os
from pathlib import Path
from urllib.parse import urlsplit

from longshore.engines.postgres.address import parse

__all__ = ["Server", "server_of"]

_TICK_US = 1_000_000 // os.sysconf("SC_CLK_TCK")


class Server:
    """A process and its children. None stands for what cannot be looked at, or is not there."""

    def __init__(self, pid: int | None, url: str | None = None) -> None:
        self._pid = pid
        self._url = url

    def wal(self) -> int | None:
        """Bytes of write-ahead log so far, of the whole server."""
        return asyncio.run(_wal(self._url)) if self._url is not None else None

    @property
    def pid(self) -> int | None:
        """The process; None where it cannot be looked at."""
        return self._pid

    def cpu(self) -> int:
        """Microseconds used so far, those of children that have ended included."""
        if self._pid is None:
            return 0
        parent = _stat(self._pid)
        if parent is None:
            return 0
        ticks = sum(parent[13:17])
        for one in Path("/proc").iterdir():
            if one.name.isdecimal():
                child = _stat(int(one.name))
                if child is not None and child[3] == self._pid:
                    ticks += sum(child[13:15])
        return ticks * _TICK_US


async def server_of(url: str) -> Server:
    """The server behind an engine's URL: PostgreSQL on this machine, or none."""
    if not urlsplit(url).scheme.startswith("postgres"):
        return Server(None)
    import asyncpg  # only where there is a server to ask

    address = parse(url).dsn
    connection = await asyncpg.connect(address)
    try:
        # A number from another machine would name another process here.
        is_here = await connection.fetchval(
            "select inet_server_addr() is null or inet_server_addr() <<= '127.0.0.0/8'"
            " or inet_server_addr() = inet_client_addr()"
        )
        backend = _stat(await connection.fetchval("select pg_backend_pid()"))
    finally:
        await connection.close()
    return Server(backend[3] if is_here and backend is not None else None, address)


async def _wal(url: str) -> int:
    import asyncpg  # as above

    connection = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval("select pg_current_wal_insert_lsn() - '0/0'"))
    finally:
        await connection.close()


def _stat(pid: int) -> list[int] | None:
    """The numbers of /proc/PID/stat by their place, from 0; names and letters are 0."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return [pid, 0, 0, *(int(one) for one in fields[1:])]
