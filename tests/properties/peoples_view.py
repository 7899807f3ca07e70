"""What someone with psql sees of the jobs on PostgreSQL, beside what there is to be seen."""

from collections.abc import Sequence
from typing import Any

import asyncpg

from longshore.core.job import Job

__all__ = ["PeoplesView"]

_SAME = (
    *("id", "state", "queue", "type", "tenant", "priority", "max_attempts", "delivery"),
    *("attempt", "failures", "crashes", "lapses", "reason", "worker", "cancel_requested"),
    *("unique_key", "idempotency_key", "ordering_key", "trace", "timeout", "run_at"),
    *("created_at", "started_at", "finished_at"),
)

_VIEW = """
    select id, state, queue, type, tenant, priority, max_attempts, delivery, attempt,
           failures, crashes, lapses, reason, worker, cancel_requested, unique_key,
           idempotency_key, ordering_key, trace, payload, result, progress_message,
           extract(epoch from timeout) * 1000000 as timeout,
           extract(epoch from run_at) * 1000000 as run_at,
           extract(epoch from created_at) * 1000000 as created_at,
           extract(epoch from started_at) * 1000000 as started_at,
           extract(epoch from finished_at) * 1000000 as finished_at
      from longshore.jobs
"""


class PeoplesView:
    """Every job is in exactly one place, and the view `longshore.jobs` shows it as it is."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: asyncpg.Connection | None = None

    async def look(self, jobs: Sequence[Job]) -> None:
        """See `longshore.testing.pair.Check`."""
        if self._connection is None:
            self._connection = await asyncpg.connect(self._url)
        misplaced = await self._connection.fetch("select * from longshore.misplaced()")
        assert misplaced == [], "every job is in exactly one place"

        found = {row["id"].bytes: dict(row) for row in await self._connection.fetch(_VIEW)}
        assert len(found) == len(jobs)
        for job in jobs:
            shown = found[job.id] | {"id": job.id}
            assert shown == _as_shown(job)

    async def close(self) -> None:
        """See `longshore.testing.pair.Check`."""
        if self._connection is not None:
            await self._connection.close()
            self._connection = None


def _as_shown(job: Job) -> dict[str, Any]:
    shown = {name: getattr(job, name) for name in _SAME}
    return shown | {
        "payload": _readable(job.payload),
        "result": None if job.result is None else _readable(job.result),
        "progress_message": job.progress.message if job.progress else None,
    }


def _readable(content: bytes) -> str:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = "\0"
    return rf"\x{content.hex()}" if "\0" in text else text
