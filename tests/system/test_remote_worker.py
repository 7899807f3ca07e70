"""Workers that reach their store through the HTTP service: processes, killed and cut off."""

import asyncio
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from deaf_http import DeafHttp

from longshore.contract import Engine, JobFilter
from longshore.core import event
from longshore.core.event import Name
from longshore.core.job import JobId
from longshore.core.state import State
from longshore.engines import open_engine
from longshore.testing.factories import a_job
from longshore.testing.harness import eventually

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "remote_worker.py"
PATIENCE = 60.0

pytestmark = pytest.mark.slow


class Harbour:
    """A store, the services in front of it, and workers that know only those."""

    def __init__(self, store: str, engine: Engine, folder: Path) -> None:
        self.engine = engine
        self.folder = folder
        self._store = store
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._processes: list[subprocess.Popen[str]] = []

    @property
    def port(self) -> int:
        return self._socket.getsockname()[1]

    def serve(self) -> subprocess.Popen[str]:
        """A process of the service; what it does not accept, the next one will."""
        descriptor = self._socket.fileno()
        return self._start(
            "api", HERE / "api_process.py", self._store, str(descriptor), fds=(descriptor,)
        )

    def work(
        self, name: str, *, port: int | None = None, lease: float = 20.0
    ) -> subprocess.Popen[str]:
        """A worker, ready to work."""
        url = f"http://127.0.0.1:{port or self.port}"
        process = self._start(
            name, HERE / "worker_process.py", url, str(self.folder), name, str(lease)
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "listening\n"
        return process

    def run(self, program: Path, *arguments: str) -> subprocess.Popen[str]:
        """Another worker."""
        return self._start(program.stem, program, *arguments)

    async def submit(self, type_name: str, count: int) -> list[JobId]:
        """Jobs numbered from 0."""
        jobs = [
            a_job(type=type_name, payload=msgspec.json.encode({"n": number}))
            for number in range(count)
        ]
        return [one.id for one in await self.engine.submit(jobs)]

    def runs(self) -> Counter[str]:
        """How often each job was run, by its number."""
        book = self.folder / "runs"
        lines = book.read_text().splitlines() if book.exists() else []
        return Counter(line.split()[1] for line in lines)

    async def succeeded(self) -> int:
        counts = await self.engine.counts()
        return sum(one.succeeded for one in counts)

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait(10)
            if process.stdout is not None:
                process.stdout.close()
        self._socket.close()

    def _start(
        self, name: str, program: Path, *arguments: str, fds: tuple[int, ...] = ()
    ) -> subprocess.Popen[str]:
        with (self.folder / f"{name}.log").open("a") as log:
            process = subprocess.Popen(
                [sys.executable, program, *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                pass_fds=fds,
            )
        self._processes.append(process)
        return process


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("empty_postgres_url")
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
async def harbour(store: str, tmp_path: Path) -> AsyncIterator[Harbour]:
    engine = open_engine(store)
    await engine.migrate()
    found = Harbour(store, engine, tmp_path)
    yield found
    found.close()
    await engine.close()


async def ends(engine: Engine) -> Counter[JobId]:
    """How often each job was told to have succeeded."""
    batches = await engine.events(after=0, limit=10_000)
    return Counter(
        one.job_id
        for batch in batches
        for one in event.expand(batch)
        if one.name is Name.SUCCEEDED
    )


async def all_done(harbour: Harbour, jobs: list[JobId]) -> None:
    async def is_done() -> bool:
        return await harbour.succeeded() == len(jobs)

    await eventually(is_done, within=PATIENCE)


@pytest.mark.slow
async def test_a_service_that_is_killed_in_the_middle_loses_and_doubles_nothing(
    harbour: Harbour,
) -> None:
    first, _ = harbour.serve(), harbour.serve()
    harbour.work("w1")
    jobs = await harbour.submit("quick", 150)
    await eventually(lambda: harbour.runs().total() >= 10, within=PATIENCE)

    first.send_signal(signal.SIGKILL)
    harbour.serve()

    await all_done(harbour, jobs)
    assert set(harbour.runs().values()) == {1}
    assert await ends(harbour.engine) == Counter(jobs)
    found = (await harbour.engine.find(JobFilter(), limit=1_000)).jobs
    assert {(job.state, job.delivery) for job in found} == {(State.SUCCEEDED, 1)}


async def test_answers_that_are_lost_on_the_wire_are_asked_for_again(harbour: Harbour) -> None:
    harbour.serve()
    proxy = DeafHttp(harbour.port, b":exchange", every=2)
    async with proxy.listening() as port:
        worker = await asyncio.to_thread(harbour.work, "w1", port=port)
        jobs = await harbour.submit("quick", 60)

        await all_done(harbour, jobs)
        worker.send_signal(signal.SIGKILL)

    assert proxy.lost > 0
    assert set(harbour.runs().values()) == {1}
    assert await ends(harbour.engine) == Counter(jobs)


@pytest.mark.slow
async def test_what_a_killed_worker_held_runs_again_when_its_lease_is_over(
    harbour: Harbour,
) -> None:
    harbour.serve()
    victim = await asyncio.to_thread(harbour.work, "victim", lease=2.0)
    (job,) = await harbour.submit("hold", 1)

    async def is_started() -> bool:
        return (await harbour.engine.get(job)).started_at is not None

    await eventually(is_started, within=PATIENCE)

    victim.send_signal(signal.SIGKILL)
    victim.wait(10)
    await asyncio.to_thread(harbour.work, "heir", lease=2.0)

    await all_done(harbour, [job])
    found = await harbour.engine.get(job)
    assert (found.state, found.crashes, found.failures) == (State.SUCCEEDED, 1, 0)
    assert await ends(harbour.engine) == Counter([job])


@pytest.mark.slow
async def test_the_example_worker_needs_nothing_but_urllib(harbour: Harbour) -> None:
    harbour.serve()
    good = await harbour.engine.submit([a_job(type="add", payload=b'{"a": 2, "b": 3}')])
    bad = await harbour.engine.submit([a_job(type="add", payload=b'{"a": 2}', max_attempts=1)])

    worker = harbour.run(EXAMPLE, f"http://127.0.0.1:{harbour.port}")

    async def is_done() -> bool:
        return (await harbour.engine.get(bad[0].id)).state is State.DEAD

    await eventually(is_done, within=PATIENCE)
    worker.send_signal(signal.SIGTERM)
    said, _ = worker.communicate(timeout=10)
    assert worker.returncode == 0
    for words in ("waiting for jobs of the type add", ": 5\n", "failed: KeyError", "closed"):
        assert words in said
    added, failed = [await harbour.engine.get(one[0].id) for one in (good, bad)]
    assert (added.state, added.result) == (State.SUCCEEDED, b"5")
    assert failed.failure is not None
    assert failed.failure.kind == "KeyError"
    assert (await harbour.engine.sessions()).sessions == []
