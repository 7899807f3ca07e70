"""Ordering keys, as people see them, and how many jobs may wait in a queue."""

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from longshore.core import audit_record
from longshore.core.audit_record import AuditRecord
from longshore.core.job import JobId, NewJob
from longshore.core.ordering_key import Line, LineName
from longshore.engines.sqlite import ordering_keys, submission
from longshore.engines.sqlite.audit_records import record_order
from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.transaction import Transaction
from longshore.engines.sqlite.writer import Writer
from longshore.runtime.actor import signed
from longshore.runtime.backpressure import Depth, Depths

__all__ = ["DepthSource", "SqliteOrderingKeys", "admit"]

T = TypeVar("T")


class Read(Protocol):
    """Runs a function on a connection that reads."""

    async def __call__(self, body: Callable[[sqlite3.Connection], T]) -> T:
        """What the function returns."""
        ...


class SqliteOrderingKeys:
    """Shows ordering keys, and lets blocked ones go on."""

    _writer: Writer

    async def _read(self, body: Callable[[sqlite3.Connection], T]) -> T: ...

    async def line(self, queue: str, key: str, *, tenant: str = "default") -> Line | None:
        """How the line of an ordering key stands."""
        name = LineName(queue, tenant, key)
        return await self._read(lambda db: ordering_keys.get(db, name))

    async def blocked_lines(self, *, limit: int, tenant: str | None = None) -> list[Line]:
        """The lines that dead jobs block."""
        return await self._read(lambda db: ordering_keys.blocked(db, tenant, limit))

    async def release_line(self, queue: str, key: str, *, tenant: str = "default") -> bool:
        """Let a blocked line go on without the dead."""
        name = LineName(queue, tenant, key)
        order = signed(audit_record.line_released(queue, key, tenant))
        return await self._writer.call(partial(_release, name, order))


class DepthSource:
    """What `Depths` asks of the file."""

    def __init__(self, read: Read) -> None:
        self._read = read

    async def depths(self) -> list[Depth]:
        """Where no more than so many jobs may wait."""
        return await self._read(_count_depths)

    async def known(self, jobs: Sequence[NewJob]) -> set[JobId]:
        """Those of the jobs that stand already."""
        return await self._read(lambda db: submission.known(db, jobs))


def _release(name: LineName, order: AuditRecord, transaction: Transaction) -> bool:
    was_blocked = ordering_keys.release(name, transaction)
    if was_blocked:
        record_order(transaction, order)
    return was_blocked


def admit(depths: Depths, db: sqlite3.Connection, jobs: Sequence[NewJob]) -> None:
    """Return if the jobs may be submitted on this connection, else QueueFullError."""
    if depths.is_stale:
        since = depths.look()
        depths.learn(_count_depths(db), since=since)
    crowd = depths.crowd(jobs)
    known = submission.known(db, [job for job, _ in crowd]) if crowd else set[JobId]()
    depths.let_in(jobs, crowd, known)


def _count_depths(db: sqlite3.Connection) -> list[Depth]:
    return [Depth(*row) for row in db.execute(SQL.depths)]
