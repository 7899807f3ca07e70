"""A store, `longshore worker` on it, and the ledger that its handlers write."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from longshore.contract import Engine
from longshore.core.job import Attempt, Job, JobId, NewJob
from longshore.core.state import TERMINAL
from longshore.engines import open_engine
from longshore.testing.factories import a_job
from longshore.testing.harness import eventually

HERE = Path(__file__).parent
PATIENCE = 60.0


class Yard:
    """What a test does with the store and the workers."""

    def __init__(self, engine: Engine, url: str, folder: Path) -> None:
        self.engine = engine
        self.folder = folder
        self._url = url
        self._count = 0

    @contextmanager
    def worker(
        self, *options: str, app: str | None = "poison_app:app"
    ) -> Iterator["subprocess.Popen[bytes]"]:
        """`longshore worker` in the folder; what is left of it in the end is killed."""
        environ = {name: one for name, one in os.environ.items() if "LONGSHORE" not in name}
        environ["PYTHONPATH"] = os.pathsep.join([str(HERE), environ.get("PYTHONPATH", "")])
        words = ["worker", "--json", "--url", self._url, *options]
        words += [] if app is None else ["--app", app]
        self._count += 1
        with (
            (self.folder / f"{self._count}.log").open("wb") as log,
            subprocess.Popen(
                [sys.executable, "-m", "longshore", *words],
                cwd=self.folder,
                env=environ,
                stderr=log,
                process_group=0,
            ) as process,
        ):
            try:
                yield process
                process.terminate()
                process.wait(PATIENCE)
            finally:
                with suppress(ProcessLookupError):
                    process.send_signal(signal.SIGKILL)

    async def is_kept(self, known: set[int]) -> bool:
        """A worker has come, and its keeper looks after it."""
        sessions = [
            one for one in (await self.engine.sessions()).sessions if one.token not in known
        ]
        return any(one.renewed_at > one.opened_at for one in sessions)

    async def tokens(self) -> set[int]:
        return {one.token for one in (await self.engine.sessions()).sessions}

    async def submit(self, jobs: Sequence[NewJob]) -> list[JobId]:
        await self.engine.submit(jobs)
        return [job.id for job in jobs]

    async def ended(self, ids: Sequence[JobId], within: float = PATIENCE) -> list[Job]:
        """All of these, once none of them is left to run."""

        async def look() -> list[Job]:
            jobs = [await self.engine.get(one) for one in ids]
            return jobs if all(job.state in TERMINAL for job in jobs) else []

        return await eventually(look, within=within, every=0.2)

    async def history(self, job_id: JobId) -> list[Attempt]:
        return await self.engine.attempts(job_id)

    def runs(self) -> Counter[int]:
        """How often each job's handler began, by its number."""
        return Counter(n for n, _, _ in self.ledger())

    def ledger(self) -> list[tuple[int, int, int]]:
        """Number, process and parent of every run."""
        book = self.folder / "runs"
        lines = book.read_text().splitlines() if book.exists() else []
        return [(int(n), int(pid), int(parent)) for n, pid, parent in map(str.split, lines)]

    def logged(self, event: str) -> list[dict[str, Any]]:
        """What any worker, keeper or supervisor logged under this name."""
        lines = [
            json.loads(line)
            for log in sorted(self.folder.glob("*.log"))
            for line in log.read_text().rpartition("\n")[0].splitlines()
            if line.startswith("{")
        ]
        return [line for line in lines if line["event"] == event]


@asynccontextmanager
async def open_yard(url: str, folder: Path) -> AsyncIterator[Yard]:
    engine = open_engine(url)
    await engine.migrate()
    try:
        yield Yard(engine, url, folder)
    finally:
        await engine.close()


def job(type_name: str, n: int, *, timeout: int = 60_000_000, **changes: Any) -> NewJob:
    """A job of the app's; what is no option of a job is an argument."""
    options = {name: changes.pop(name) for name in ("max_attempts",) if name in changes}
    payload = msgspec.json.encode({"n": n, **changes})
    return a_job(type=type_name, payload=payload, timeout=timeout, **options)
