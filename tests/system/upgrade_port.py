"""A store under load, with worker processes of several versions at once."""

import asyncio
import logging
import signal
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import asyncpg
from releases import Release

from longshore.engines import open_engine
from longshore.testing.harness import eventually
from longshore_lab import ledger
from longshore_lab.records import Outcome, RunBegan, RunEnded
from longshore_lab.trial import Trial
from longshore_lab.verdict import judge

__all__ = ["PATIENCE", "SCHEMA", "Port", "opened"]

log = logging.getLogger(__name__)

PATIENCE = 40.0
SCHEMA = 8
"""The exit code of a worker whose schema has moved on."""


class Port:
    """A database, a load, and worker processes of several versions."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.engine = open_engine(trial.url)
        self.processes: dict[str, asyncio.subprocess.Process] = {}

    async def work(self, release: Release, *, count: int = 2) -> list[str]:
        """Start workers of a version; their names."""
        names = [
            f"{release.folder.name}-{len(self.processes) + number}" for number in range(count)
        ]
        words = ["longshore", "worker", "--app", "upgrade_app:app", "--drain-timeout", "10s"]
        for name in names:
            await self.start(release, name, *words)
        return names

    async def produce(self, release: Release) -> None:
        """Start the producer of the load."""
        name = "producer-1"
        words = ["longshore_lab.actor", "producer", name, self.trial.pack()]
        await self.start(release, name, *words)

    async def migrate(self, release: Release) -> list[str]:
        """`longshore migrate` of a version; what it applied."""
        done = await asyncio.to_thread(release.run, "migrate", "--url", self.trial.url)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def runs(self, since: int = 0) -> dict[str, int]:
        """How many handlers each worker began since then."""
        found: defaultdict[str, int] = defaultdict(int)
        for entry in ledger.read(self.trial.ledgers, of="*-*").entries:
            if isinstance(entry.record, RunBegan) and entry.record.at >= since:
                found[entry.actor] += 1
        return found

    async def all_run(self, names: list[str], *, since: int) -> None:
        """Return when each of these workers has begun a handler since then."""
        await eventually(lambda: all(self.runs(since)[one] for one in names), within=PATIENCE)

    async def finish(self) -> None:
        """End the load, and return when nothing is left to do."""

        async def is_quiet() -> bool:
            counts = await self.engine.counts()
            return not any(one.ready + one.scheduled + one.running for one in counts)

        self.processes["producer-1"].kill()
        await self.ended("producer-1")
        await eventually(is_quiet, within=PATIENCE)

    async def refused(self, names: list[str]) -> None:
        """Return when these workers have left, and each has said why and what to do."""
        assert [await self.ended(name) for name in names] == [SCHEMA] * len(names)
        for name in names:
            last = self.said(name).splitlines()[-1]
            assert last.startswith("error: the store's schema is about to go to ")
            assert last.endswith("; upgrade longshore")
            assert "Traceback" not in self.said(name)

    async def ended(self, name: str) -> int:
        """The exit code."""
        async with asyncio.timeout(PATIENCE):
            return await self.processes[name].wait()

    def said(self, name: str) -> str:
        """What the process wrote to standard error."""
        return self._log(name).read_text()

    async def dismiss(self, names: list[str]) -> list[int]:
        """The exit codes of those that work, once they were asked to leave."""
        for name in names:
            self.processes[name].send_signal(signal.SIGTERM)
        return [await self.ended(name) for name in names]

    def flow(self, began: int, ended: int) -> tuple[float, float]:
        """Handlers that ended per second, and the longest time in which none did."""
        ends = [
            entry.record.at
            for entry in ledger.read(self.trial.ledgers, of="*-*").entries
            if isinstance(entry.record, RunEnded) and began <= entry.record.at <= ended
        ]
        gaps = (later - earlier for earlier, later in pairwise([began, *ends, ended]))
        return len(ends) / (ended - began) * 1e6, max(gaps) / 1e6

    async def assert_sound(self) -> None:
        """Every job ran once and is where it belongs."""
        verdict = await judge(self.trial, self.engine)
        log.info("%s", verdict.figures)
        assert {k: one.examples for k, one in verdict.findings.items() if not one.holds} == {}
        assert verdict.figures.accepted > 500
        assert verdict.figures.redelivered == 0
        stopped = [
            entry
            for entry in ledger.read(self.trial.ledgers, of="*-*").entries
            if isinstance(entry.record, RunEnded) and entry.record.outcome is Outcome.STOPPED
        ]
        assert stopped == []
        if self.trial.url.startswith("postgresql:"):
            connection = await asyncpg.connect(self.trial.url)
            assert await connection.execute("select * from longshore.misplaced()") == "SELECT 0"
            await connection.close()

    async def close(self) -> None:
        for process in self.processes.values():
            if process.returncode is None:
                process.kill()
            await process.wait()
        await self.engine.close()

    async def start(
        self, release: Release, name: str, *words: str
    ) -> asyncio.subprocess.Process:
        """A module of a version, with arguments."""
        environment = release.environment(LAB_TRIAL=self.trial.pack(), LAB_ACTOR=name)
        # The pipe closes with this process, which is how the lab's actors learn of its death.
        with self._log(name).open("wb") as errors:
            self.processes[name] = await asyncio.create_subprocess_exec(
                release.python, "-m", *words,
                env=environment, stdin=asyncio.subprocess.PIPE, stderr=errors,
            )  # fmt: skip
        return self.processes[name]

    def _log(self, name: str) -> Path:
        return Path(self.trial.folder) / f"{name}.log"


@asynccontextmanager
async def opened(url: str, folder: Path, **load: float) -> AsyncIterator[Port]:
    """A port on a new store, with the schema of this version."""
    # No lease ends meanwhile, so no job may run a second time without having failed.
    plan = {"batch": 25, "pace": 0.05, "long_share": 0.0, "lease_seconds": 60.0, **load}
    port = Port(Trial(url=url, folder=str(folder), jobs=100_000, **plan))
    try:
        await port.engine.migrate()
        yield port
    finally:
        await port.close()
