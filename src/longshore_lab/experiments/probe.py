"""Looks into a store from outside of the queue: what its server waits for, and how it grows."""

import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote

from longshore.engines.sqlite.faults import is_busy

__all__ = ["FREE", "HELD", "Growth", "Probe", "open_probe"]

HELD, FREE = "write lock:held", "write lock:free"
"""What a look at a file of SQLite's finds."""

_WAITS = """
select coalesce(wait_event_type || ':' || wait_event, 'running') as event, count(*) as sessions
  from pg_stat_activity
 where state = 'active' and backend_type = 'client backend' and pid <> pg_backend_pid()
 group by 1
"""
_GROWTH = """
select (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint as written,
       (select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
          from pg_class c join pg_namespace n on n.oid = c.relnamespace
         where n.nspname = 'longshore' and c.relkind in ('r', 'm')) as bytes,
       (select coalesce(sum(n_dead_tup), 0)::bigint
          from pg_stat_user_tables where schemaname = 'longshore') as dead_rows
"""
_PATIENCE = 5.0


class Growth(NamedTuple):
    """How large a store is."""

    written: int = 0
    """Bytes that its log has ever had."""
    store_bytes: int = 0
    dead_rows: int = 0
    """Versions of rows that nobody needs any more and nothing has removed."""


class Probe(Protocol):
    """A look at a store. One that does not answer has nothing to tell."""

    async def waits(self) -> Counter[str]:
        """How many sessions of the server are at work, by what they wait for.

        Of a file without a server: whether somebody has its write lock.
        """
        ...

    async def growth(self) -> Growth:
        """How large it is."""
        ...

    async def close(self) -> None:
        """Look no more."""
        ...


async def open_probe(url: str | None) -> Probe:
    """A probe of the store, or of nothing."""
    if url is not None and url.startswith("postgres"):
        import asyncpg  # optional, as the engine is

        from longshore.engines.postgres.address import parse

        connection = await asyncpg.connect(parse(url).dsn, timeout=_PATIENCE)
        return _Server(connection, (OSError, TimeoutError, asyncpg.PostgresError))
    if url is not None and url.startswith("sqlite"):
        return _File(Path(unquote(url.partition("?")[0].partition(":///")[2])))
    return _Nothing()


class _Server:
    def __init__(self, connection: Any, errors: tuple[type[Exception], ...]) -> None:
        self._connection = connection
        self._errors = errors

    async def waits(self) -> Counter[str]:
        try:
            rows = await self._connection.fetch(_WAITS, timeout=_PATIENCE)
        except self._errors:
            return Counter()
        return Counter({row["event"]: row["sessions"] for row in rows})

    async def growth(self) -> Growth:
        try:
            return Growth(*await self._connection.fetchrow(_GROWTH, timeout=_PATIENCE))
        except self._errors:
            return Growth()

    async def close(self) -> None:
        await self._connection.close()


class _File:
    """SQLite has no server. What its callers wait for is its lock: one of them writes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db: sqlite3.Connection | None = None

    async def waits(self) -> Counter[str]:
        try:
            if self._db is None:
                place = f"{self._path.absolute().as_uri()}?mode=rw"
                self._db = sqlite3.connect(place, uri=True, timeout=0.0, isolation_level=None)
            self._db.execute("begin immediate")
            self._db.execute("rollback")
        except sqlite3.OperationalError as error:
            return Counter([HELD] if is_busy(error) else [])
        return Counter([FREE])

    async def growth(self) -> Growth:
        paths = self._path, Path(f"{self._path}-wal")
        return Growth(store_bytes=sum(_size(path) for path in paths))

    async def close(self) -> None:
        if self._db is not None:
            self._db.close()


class _Nothing:
    async def waits(self) -> Counter[str]:
        return Counter()

    async def growth(self) -> Growth:
        return Growth()

    async def close(self) -> None:
        return None


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
