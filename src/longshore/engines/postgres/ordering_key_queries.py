"""Ordering keys, as people see them, and how many jobs may wait in a queue."""

from collections.abc import Sequence

from longshore.core import audit_record
from longshore.core.job import JobId, NewJob
from longshore.core.ordering_key import Line
from longshore.engines.postgres import idempotency, ordering_keys
from longshore.engines.postgres.database import Database
from longshore.engines.postgres.sql import SQL
from longshore.runtime.actor import signed
from longshore.runtime.backpressure import Depth

__all__ = ["DepthSource", "PostgresOrderingKeys"]


class PostgresOrderingKeys:
    """Shows ordering keys, and lets blocked ones go on."""

    @property
    def _open(self) -> Database: ...

    async def line(self, queue: str, key: str, *, tenant: str = "default") -> Line | None:
        """How the line of an ordering key stands."""
        return await ordering_keys.get(self._open, queue, tenant, key)

    async def blocked_lines(self, *, limit: int, tenant: str | None = None) -> list[Line]:
        """The lines that dead jobs block."""
        return await ordering_keys.blocked(self._open, tenant, limit)

    async def release_line(self, queue: str, key: str, *, tenant: str = "default") -> bool:
        """Let a blocked line go on without the dead."""
        order = signed(audit_record.line_released(queue, key, tenant))
        return await ordering_keys.release(self._open, queue, tenant, key, order)


class DepthSource:
    """What `Depths` asks of the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def depths(self) -> list[Depth]:
        """Where no more than so many jobs may wait."""
        return [Depth(*row) for row in await self._database.fetch(SQL.depths)]

    async def known(self, jobs: Sequence[NewJob]) -> set[JobId]:
        """Those of the jobs that stand already."""
        ids, tenants, keys, fingerprints, *_ = idempotency.asked(jobs)
        found = await self._database.fetch(SQL.known, ids, tenants, keys, fingerprints)
        places: list[int] = [row["place"] for row in found]
        return {jobs[place - 1].id for place in places}
