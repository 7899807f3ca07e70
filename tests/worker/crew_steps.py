"""A worker with child processes, and proof that none of them is left."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from process_tasks import app

from longshore import JobHandle
from longshore.core.job import Job
from longshore.testing.harness import eventually
from longshore.worker.settings import WorkerSettings
from longshore.worker.worker import Worker

PATIENCE = 20.0


class Pool:
    """A worker on a queue in memory, and what a test wants to know of its children."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.running: asyncio.Task[Any]

    @property
    def pids(self) -> list[int]:
        processes = self.worker._slots.lanes.processes
        assert processes is not None
        return processes.children

    async def job(self, handle: JobHandle[Any]) -> Job:
        return await app.engine.get(handle._id)

    async def settled(self, handle: JobHandle[Any]) -> Job:
        """The job, once its first attempt has ended."""

        async def found() -> Job | None:
            job = await self.job(handle)
            return job if job.finished_at is not None or job.run_at > job.created_at else None

        job = await eventually(found, within=PATIENCE)
        assert job is not None
        return job

    async def ended(self, handle: JobHandle[Any]) -> Job:
        """The job, once it has ended for good."""

        async def found() -> Job | None:
            await app.engine.promote(limit=100)
            job = await self.job(handle)
            return job if job.finished_at is not None else None

        job = await eventually(found, within=PATIENCE)
        assert job is not None
        return job


def is_alive(pid: int) -> bool:
    """There is such a process, and it is not just waiting to be reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[0] != b"Z"


def children_of(pid: int) -> set[int]:
    """Its child processes, dead ones that were not reaped included."""
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                stat = (entry / "stat").read_bytes()
            except OSError:
                continue
            if int(stat.rpartition(b")")[2].split()[1]) == pid:
                found.add(int(entry.name))
    return found


def open_files() -> int:
    """How many this process has."""
    return len(list(Path("/proc/self/fd").iterdir()))


@asynccontextmanager
async def working(**settings: Any) -> AsyncIterator[Pool]:
    """A running worker; when the block is left it is gone, and so is every child."""
    defaults: dict[str, Any] = {"children": 1, "child_grace": timedelta(milliseconds=300)}
    before = children_of(os.getpid()), open_files()
    with app.at("sqlite://:memory:"):
        async with app:
            worker = Worker(app.engine, app.registry(), WorkerSettings(**(defaults | settings)))
            pool = Pool(worker)
            pool.running = asyncio.create_task(worker.run())
            try:
                yield pool
            finally:
                worker.stop_now()
                async with asyncio.timeout(PATIENCE):
                    await asyncio.wait([pool.running])
    assert pool.pids == []
    assert (children_of(os.getpid()), open_files()) == before
