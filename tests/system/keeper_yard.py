"""Workers as the command line starts them, beside their keepers, on a store of the test's."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence, Set
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from longshore.contract import Engine
from longshore.core.job import Job, JobId
from longshore.core.state import State
from longshore.engines import open_engine
from longshore.errors import EngineError
from longshore.testing.factories import SECOND, a_job
from longshore.testing.harness import eventually

__all__ = ["LONG", "PATIENCE", "SHORT", "Hand", "Run", "Yard", "is_alive", "open_yard", "stop"]

HERE = Path(__file__).parent
PATIENCE = 60.0
LONG = "30s"
"""A lease that no test waits for: what happens sooner happens without it."""
SHORT = 1.5


@dataclass(slots=True)
class Run:
    """One start of a handler."""

    at: float
    pid: int
    n: int
    attempt: int


class Hand:
    """A worker's process, with its keeper and what it logs."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.process = process
        self.pid = process.pid
        self._log = log

    def lines(self, event: str) -> list[dict[str, Any]]:
        """What the worker or its keeper logged under this name."""
        # The last one may be on its way.
        whole, _, _ = self._log.read_text().rpartition("\n")
        # What a process says that dies of an exception is no record.
        records = [line for line in whole.splitlines() if line.startswith("{")]
        written = [json.loads(line) for line in records]
        return [line for line in written if line.get("event") == event]

    async def logged(self, event: str, count: int = 1) -> dict[str, Any]:
        found = await eventually(
            lambda: self.lines(event) if len(self.lines(event)) >= count else [],
            within=PATIENCE,
        )
        return found[-1]

    async def keeper(self, count: int = 1) -> int:
        """The process id of the keeper that was started last."""
        return int((await self.logged("keeper started", count))["pid"])

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        os.kill(self.pid, number)


class Yard:
    """A store, and the workers on it as the command line starts them."""

    def __init__(self, engine: Engine, url: str, folder: Path) -> None:
        self.engine = engine
        self.folder = folder
        self._url = url
        self._hands: list[Hand] = []

    def start(
        self,
        queues: str,
        *flags: str,
        lease: str = LONG,
        command: Sequence[str] = (sys.executable, "-m", "longshore"),
        **settings: str,
    ) -> Hand:
        log = self.folder / f"{len(self._hands)}.log"
        clean = {name: value for name, value in os.environ.items() if "LONGSHORE" not in name}
        more = {f"LONGSHORE_WORKER_{name.upper()}": value for name, value in settings.items()}
        paths = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
        words = ["worker", "--json", "--lease", lease, "--queues", queues]
        words += ["--url", self._url, "--app", "keeper_app:app", *flags]
        with log.open("wb") as stderr:
            process = subprocess.Popen(
                [*command, *words],
                cwd=self.folder,
                env={**clean, "PYTHONPATH": paths, **more},
                stderr=stderr,
                process_group=0,
            )
        hand = Hand(process, log)
        self._hands.append(hand)
        return hand

    async def started(self, queues: str, *flags: str, **options: Any) -> Hand:
        """A worker that is listed, and whose keeper looks after it."""
        known = {session.token for session in (await self.engine.sessions()).sessions}
        hand = self.start(queues, *flags, **options)
        await self.kept(known)
        return hand

    async def kept(self, known: Set[int] = frozenset()) -> None:
        """Return when a keeper looks after a session that was not known."""

        async def is_kept() -> bool:
            # The keeper renews as soon as it sees the session, the worker after a third.
            sessions = [
                one for one in (await self.engine.sessions()).sessions if one.token not in known
            ]
            return any(one.renewed_at > one.opened_at for one in sessions)

        await eventually(is_kept, within=PATIENCE)

    async def submit(self, type_name: str, count: int = 1, **arguments: Any) -> list[JobId]:
        queues = {"quick": "quick", "stuck": "stuck", "linger": "stuck", "fatal": "fatal"}
        queue = queues.get(type_name)
        queue = queue or ("hold" if type_name.startswith(("hold", "stay")) else "hog")
        limits = {"timeout": SECOND, "max_attempts": 1} if queue == "stuck" else {}
        jobs = [
            a_job(
                type=type_name,
                queue=queue,
                payload=msgspec.json.encode({"n": n, **arguments}),
                **limits,
            )
            for n in range(count)
        ]
        await self.engine.submit(jobs)
        return [job.id for job in jobs]

    def runs(self, n: int | None = None) -> list[Run]:
        book = self.folder / "runs"
        lines = map(str.split, book.read_text().splitlines() if book.exists() else [])
        runs = [Run(float(at), int(pid), int(m), int(time_)) for at, pid, m, time_ in lines]
        return runs if n is None else [run for run in runs if run.n == n]

    async def stop(self, *hands: Hand) -> None:
        await stop(self.engine, *(hand.pid for hand in hands))

    def aborted(self) -> set[tuple[int, int]]:
        """Handlers that were stopped from outside: process and job number."""
        book = self.folder / "aborts"
        lines = map(str.split, book.read_text().splitlines() if book.exists() else [])
        return {(int(pid), int(n)) for pid, n in lines}

    async def ran(self, count: int) -> list[Run]:
        await eventually(lambda: len(self.runs()) >= count, within=PATIENCE)
        return self.runs()

    async def jobs(self, ids: list[JobId]) -> list[Job]:
        return [await self.engine.get(one) for one in ids]

    async def settled(self, ids: list[JobId], state: State = State.SUCCEEDED) -> list[Job]:
        async def found() -> list[Job]:
            jobs = await self.jobs(ids)
            return jobs if all(job.state is state for job in jobs) else []

        return await eventually(found, within=PATIENCE)

    def go(self) -> None:
        (self.folder / "go").touch()

    def close(self) -> None:
        for hand in self._hands:
            hand.process.kill()
            hand.process.wait(PATIENCE)
            for line in hand.lines("keeper started"):
                with suppress(ProcessLookupError):
                    os.kill(line["pid"], signal.SIGKILL)


@asynccontextmanager
async def open_yard(url: str, folder: Path) -> AsyncIterator[Yard]:
    engine = open_engine(url)
    await engine.migrate()
    yard = Yard(engine, url, folder)
    try:
        yield yard
    finally:
        yard.close()
        await engine.close()


async def stop(engine: Engine, *pids: int) -> None:
    """Stop them at a moment when none of them keeps a SQLite file from the others."""
    for _ in range(500):
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        if await _is_writable(engine):
            return
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        await asyncio.sleep(0.003)
    raise AssertionError("someone always writes")


async def _is_writable(engine: Engine) -> bool:
    try:
        async with asyncio.timeout(0.3):
            await engine.ping()
    except (TimeoutError, EngineError):
        return False
    return True


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
