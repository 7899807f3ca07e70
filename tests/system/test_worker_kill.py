"""Workers as processes on one SQLite file: killed, stopped and asked to leave."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest
from keeper_yard import stop

from longshore.contract import Engine
from longshore.core.job import Job, JobId
from longshore.core.state import State
from longshore.engines import open_engine
from longshore.testing.factories import a_job
from longshore.testing.harness import eventually

PROGRAM = Path(__file__).with_name("worker_process.py")
LEASE = 1.5
PATIENCE = 30.0

pytestmark = pytest.mark.slow


class Yard:
    """A store, the processes that work on it, and the book of what they ran."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine = engine
        self.folder = folder
        self._processes: list[subprocess.Popen[str]] = []

    def start(self, name: str, *, lease: float = LEASE) -> subprocess.Popen[str]:
        """A worker that listens to signals."""
        url = f"sqlite:///{self.folder}/jobs.db"
        log = (self.folder / f"{name}.log").open("w")
        process = subprocess.Popen(
            [sys.executable, PROGRAM, url, self.folder, name, str(lease)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        log.close()
        self._processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "listening\n"
        return process

    async def submit(self, type_name: str, count: int = 1) -> list[JobId]:
        """Jobs numbered from 0."""
        jobs = [
            a_job(type=type_name, payload=msgspec.json.encode({"n": number}))
            for number in range(count)
        ]
        await self.engine.submit(jobs)
        return [job.id for job in jobs]

    def runs(self) -> list[tuple[str, int, int]]:
        """Every start of a handler: worker, job number, attempt."""
        book = self.folder / "runs"
        lines = book.read_text().splitlines() if book.exists() else []
        return [(name, int(n), int(attempt)) for name, n, attempt in map(str.split, lines)]

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    async def jobs(self, ids: list[JobId]) -> list[Job]:
        return [await self.engine.get(one) for one in ids]

    async def settled(self, ids: list[JobId], state: State = State.SUCCEEDED) -> list[Job]:
        """The jobs, once all of them have this state."""

        async def found() -> list[Job]:
            jobs = await self.jobs(ids)
            return jobs if all(job.state is state for job in jobs) else []

        return await eventually(found, within=PATIENCE)

    async def started(self, job_id: JobId) -> Job:
        """The job, once the engine knows that it runs."""

        async def found() -> Job | None:
            job = await self.engine.get(job_id)
            return job if job.started_at is not None else None

        job = await eventually(found, within=PATIENCE)
        assert job is not None
        return job

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait(PATIENCE)
            assert process.stdout is not None
            process.stdout.close()


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    engine = open_engine(f"sqlite:///{tmp_path}/jobs.db")
    await engine.migrate()
    yield engine
    await engine.close()


@pytest.fixture
def yard(engine: Engine, tmp_path: Path) -> Iterator[Yard]:
    yard = Yard(engine, tmp_path)
    yield yard
    yard.close()


@pytest.mark.slow
async def test_a_job_whose_worker_was_killed_runs_again_after_the_lease_uncharged(yard: Yard):
    (job_id,) = await yard.submit("hold")
    first = yard.start("first")
    await yard.started(job_id)

    first.kill()
    yard.start("second")
    (job,) = await yard.settled([job_id])

    assert (job.crashes, job.failures, job.attempt, job.delivery) == (1, 0, 2, 2)
    assert job.result == b'"second"'
    assert yard.runs() == [("first", 0, 1), ("second", 0, 2)]


async def test_sigterm_under_load_loses_nothing_and_charges_nothing(yard: Yard):
    ids = await yard.submit("quick", 3_000)
    threaded = await yard.submit("in_thread", 300)
    first = yard.start("first")
    await eventually(lambda: len(yard.runs()) > 500, within=PATIENCE)

    first.terminate()
    code = first.wait(PATIENCE)
    after = await yard.jobs(ids + threaded)

    assert code == 0
    assert {job.state for job in after} == {State.SUCCEEDED, State.READY}
    assert {job.failures for job in after} == {0}
    assert {job.attempt for job in after if job.state is State.READY} == {0}
    yard.start("second")
    done = await yard.settled(ids + threaded)
    assert Counter(job.attempt for job in done) == {1: 3_300}
    assert len(yard.runs()) == 3_300


async def test_sigterm_lets_a_running_job_finish(yard: Yard):
    (job_id,) = await yard.submit("hold")
    process = yard.start("first", lease=1.0)
    await yard.started(job_id)

    process.terminate()

    async def is_past_its_first_lease() -> bool:
        (session,) = (await yard.engine.sessions()).sessions
        return session.renewed_at - session.opened_at > 1_300_000

    await eventually(is_past_its_first_lease, within=PATIENCE)
    during = await yard.engine.get(job_id)
    (yard.folder / "go").touch()
    code = process.wait(PATIENCE)

    job = await yard.engine.get(job_id)
    assert (during.state, code) == (State.RUNNING, 0)
    assert (job.state, job.delivery) == (State.SUCCEEDED, 1)


async def test_a_second_sigterm_leaves_at_once_and_gives_the_job_back(yard: Yard):
    (job_id,) = await yard.submit("hold")
    process = yard.start("first")
    await yard.started(job_id)

    process.terminate()
    await eventually(lambda: "SIGTERM" in yard.log("first") or "signal" in yard.log("first"))
    await asyncio.sleep(0.1)  # sooner, it would count as the first one's echo
    began = time.monotonic()
    process.terminate()
    code = process.wait(PATIENCE)

    job = await yard.engine.get(job_id)
    assert code == 0
    # It would drain for 30 seconds, had the second one not counted.
    assert time.monotonic() - began < 15.0
    assert (job.state, job.failures, job.crashes) == (State.READY, 0, 0)


@pytest.mark.prove
async def test_a_worker_that_was_stopped_past_its_lease_settles_nothing(yard: Yard):
    (job_id,) = await yard.submit("hold")
    first = yard.start("first")
    await yard.started(job_id)

    await stop(yard.engine, first.pid)
    yard.start("second")
    (taken,) = await yard.settled([job_id])
    # Its handler would return at once when it is resumed.
    (yard.folder / "go").touch()
    os.kill(first.pid, signal.SIGCONT)
    await eventually(lambda: "lease lost" in yard.log("first"), within=PATIENCE)
    (other,) = await yard.submit("quick")
    await yard.settled([other])

    job = await yard.engine.get(job_id)
    assert job == taken
    assert (job.result, job.delivery, job.failures) == (b'"second"', 2, 0)
    outcomes = [one.outcome for one in await yard.engine.attempts(job_id)]
    assert outcomes == ["crashed", "succeeded"]


async def test_a_systemexit_in_a_task_of_a_handler_does_not_end_the_worker(yard: Yard):
    (job_id,) = await yard.submit("leave")
    process = yard.start("first")
    ids = await yard.submit("quick", 20)

    await yard.settled(ids)
    (job,) = await yard.settled([job_id], State.SCHEDULED)

    assert process.poll() is None
    # By now it may have had another try.
    assert (job.failures >= 1, job.crashes) == (True, 0)
    assert job.failure is not None
    assert job.failure.kind == "SystemExit"
