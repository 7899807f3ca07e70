"""Workers: their documents, and what API, command line and SDK do with them."""

from datetime import datetime

import msgspec

from longshore.core.view import SessionView
from longshore.errors import LeaseLostError, NotFoundError
from longshore.operations.fields import instant
from longshore.operations.local import EngineOperations

__all__ = ["CrashCounts", "WorkerList", "WorkerOperations", "WorkerView", "worker_view"]


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that is connected."""

    token: int
    worker: str
    queues: tuple[str, ...]
    types: tuple[str, ...]
    opened_at: datetime
    renewed_at: datetime
    expires_at: datetime
    """When it is given up if it does not renew."""
    holding: int
    is_quiet: bool
    """It was asked to drain."""


class CrashCounts(msgspec.Struct, frozen=True):
    """What crashes have cost since the store was made."""

    workers: int
    """Workers that crashed or fell silent, and held jobs."""
    jobs: int
    """Jobs that were taken back from them."""


class WorkerList(msgspec.Struct, frozen=True):
    """Workers, those that have been there longest first."""

    workers: list[WorkerView]
    cursor: str | None
    """Where the next page begins; null at the end."""
    crashes: CrashCounts


class WorkerOperations(EngineOperations):
    """What is done with workers on an engine."""

    async def workers(self) -> list[WorkerView]:
        """The workers that are connected, those that have been there longest first."""
        return [worker_view(one) for one in (await self._engine.sessions()).sessions]

    async def crash_counts(self) -> CrashCounts:
        """How many workers have crashed, and how many jobs were taken back from them."""
        found = (await self._engine.sessions()).losses
        return CrashCounts(workers=found.workers, jobs=found.jobs)

    async def drain_worker(self, token: int) -> WorkerView:
        """Ask a worker to finish what it runs and to leave, or NotFoundError."""
        try:
            await self._engine.drain_session(token)
        except LeaseLostError:
            raise NotFoundError(f"no worker has the session {token}") from None
        for one in (await self._engine.sessions()).sessions:
            if one.token == token:
                return worker_view(one)
        raise NotFoundError(f"no worker has the session {token}")


def worker_view(it: SessionView) -> WorkerView:
    """A worker's document."""
    return WorkerView(
        token=it.token,
        worker=it.worker,
        queues=it.queues,
        types=it.types,
        opened_at=instant(it.opened_at),
        renewed_at=instant(it.renewed_at),
        expires_at=instant(it.expires_at),
        holding=it.holding,
        is_quiet=it.is_quiet,
    )
