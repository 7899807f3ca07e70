"""Workers with child processes, as processes: killed, stopped, interrupted, misused."""

import asyncio
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from keeper_yard import stop

from longshore.core import ids
from longshore.core.job import Job, JobId
from longshore.core.state import State
from longshore.engines import open_engine
from longshore.testing.factories import a_job
from longshore.testing.harness import eventually

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
PATIENCE = 30.0


class Yard:
    """Processes in one folder, all of whose descendants carry a mark that they inherit."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder}/jobs.db"
        self._stack = stack
        self._mark = f"TRIAL={secrets.token_hex(8)}"
        clean = {name: value for name, value in os.environ.items() if "LONGSHORE" not in name}
        path = os.pathsep.join(filter(None, [str(HERE), clean.get("PYTHONPATH")]))
        self._environ = {**clean, "PYTHONPATH": path, "TRIAL": self._mark.partition("=")[2]}

    def start(self, *words: str) -> "subprocess.Popen[str]":
        process = self._stack.enter_context(
            subprocess.Popen(
                [sys.executable, *words],
                cwd=self.folder,
                env=self._environ,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                process_group=0,
            )
        )
        self._stack.callback(process.kill)
        return process

    def worker(self, *words: str) -> "subprocess.Popen[str]":
        common = ["-m", "longshore", "worker", "--app", "process_app:app", "--url", self.url]
        return self.start(*common, "--children", "2", *words)

    def script(self, text: str) -> str:
        (self.folder / "script.py").write_text(textwrap.dedent(text))
        return "script.py"

    async def submit(self, type_name: str, **arguments: str) -> JobId:
        (job_id,) = await self.submit_all(type_name, [arguments])
        return job_id

    async def submit_all(self, type_name: str, each: Sequence[object]) -> list[JobId]:
        payloads = [json.dumps(arguments).encode() for arguments in each]
        jobs = [a_job(type=type_name, payload=one, timeout=None) for one in payloads]
        engine = open_engine(self.url)
        await engine.migrate()
        await engine.submit(jobs)
        await engine.close()
        return [job.id for job in jobs]

    async def job(self, job_id: JobId) -> Job:
        (job,) = await self.jobs([job_id])
        return job

    async def jobs(self, job_ids: list[JobId]) -> list[Job]:
        engine = open_engine(self.url)
        try:
            return [await engine.get(one) for one in job_ids]
        finally:
            await engine.close()

    async def succeeded(self, job_ids: list[JobId]) -> list[Job]:
        """All of them, once all have."""
        jobs = await self.jobs(job_ids)
        return jobs if all(job.state is State.SUCCEEDED for job in jobs) else []

    async def ended(self, job_id: JobId) -> Job:
        async def found() -> Job | None:
            job = await self.job(job_id)
            return job if job.finished_at is not None else None

        job = await eventually(found, within=PATIENCE)
        assert job is not None
        return job

    async def pids(self, name: str) -> list[int]:
        """What a job wrote of itself and the process it started."""
        path = self.folder / f"{name}.pids"
        await eventually(lambda: path.exists() and path.read_text(), within=PATIENCE)
        return [int(word) for word in path.read_text().split()]

    def runs(self) -> list[str]:
        """What is in the book that jobs keep outside the queue."""
        book = self.folder / "runs"
        return book.read_text().split() if book.exists() else []

    def survivors(self) -> dict[int, str]:
        """Every live process that descends from one of ours, by what it runs."""
        found: dict[int, str] = {}
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdecimal() and self._is_ours(entry):
                    found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
        return found

    def _is_ours(self, entry: Path) -> bool:
        return self._mark.encode() in (entry / "environ").read_bytes().split(b"\0")


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    with ExitStack() as stack:
        yard = Yard(tmp_path, stack)
        yield yard
        for pid in yard.survivors():
            os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
async def test_no_process_survives_a_worker_that_was_killed_and_its_job_runs_again(yard: Yard):
    job_id = await yard.submit("hold", name="a")
    await yard.submit("hold_the_gil", name="b")
    worker = yard.worker()
    family = [worker.pid, *await yard.pids("a"), *await yard.pids("b")]
    before = yard.survivors()

    worker.kill()
    worker.wait(PATIENCE)
    await eventually(lambda: not yard.survivors(), within=PATIENCE, every=0.005)
    (yard.folder / "a.go").touch()
    yard.worker()
    job = await yard.ended(job_id)

    assert set(family) <= before.keys()
    assert (job.state, job.result) == (State.SUCCEEDED, b'"a in attempt 2"')
    assert (job.failures, job.crashes) == (0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, pytest.param(50, marks=pytest.mark.prove)])
async def test_no_process_survives_whenever_the_worker_is_killed(yard: Yard, rounds: int):
    """Also while children are being started, and have not tied themselves to it yet."""
    rng = random.Random(rounds)
    for number in range(rounds):
        for half in ("a", "b"):
            await yard.submit("hold", name=f"{number}{half}")
        worker = yard.worker("--lease", "1s")
        await eventually(lambda: len(yard.survivors()) > 1, within=PATIENCE, every=0.002)
        await asyncio.sleep(rng.uniform(0.0, 0.6))

        worker.kill()
        worker.wait(PATIENCE)

        await eventually(lambda: not yard.survivors(), within=PATIENCE, every=0.005)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, pytest.param(50, marks=pytest.mark.prove)])
async def test_no_process_survives_a_worker_that_was_killed_while_children_were_forked(
    yard: Yard, rounds: int
):
    """Each job has a child to itself, so there is always one that is being made."""
    (yard.folder / "longshore.toml").write_text("[worker]\nchild_jobs = 1\n")
    rng = random.Random(rounds)
    for _ in range(rounds):
        await yard.submit_all("count", [{"n": n} for n in range(500)])
        worker = yard.worker("--lease", "1s")

        def is_forking() -> bool:
            forks = [one for one in yard.survivors().values() if "worker.fork_server" in one]
            return len(forks) > 1

        await eventually(is_forking, within=PATIENCE, every=0.002)
        await asyncio.sleep(rng.uniform(0.0, 0.3))

        worker.kill()
        worker.wait(PATIENCE)

        await eventually(lambda: not yard.survivors(), within=PATIENCE, every=0.005)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, pytest.param(25, marks=pytest.mark.prove)])
async def test_sigterm_under_load_loses_nothing_and_charges_nothing(yard: Yard, rounds: int):
    # Nobody reads what the last worker says, and one whose pipe is full stands still.
    (yard.folder / "longshore.toml").write_text("[worker]\nlog_successes = 0\n")
    job_ids = await yard.submit_all("count", [{"n": n} for n in range(200 * rounds)])
    rng = random.Random(rounds)
    for number in range(rounds):
        worker = yard.worker("--lease", "5s")
        goal = min(len(yard.runs()) + rng.randint(1, 150), len(job_ids) - 1)
        await eventually(
            lambda goal=goal: len(yard.runs()) >= goal, within=PATIENCE, every=0.002
        )
        worker.terminate()
        worker.communicate(timeout=PATIENCE)
        assert (number, worker.returncode, yard.survivors()) == (number, 0, {})

    between = await yard.jobs(job_ids)
    yard.worker()
    done = await eventually(
        lambda: yard.succeeded(job_ids), within=PATIENCE * (1 + rounds), every=0.1
    )

    assert {job.state for job in between} == {State.SUCCEEDED, State.READY}
    assert {job.attempt for job in between if job.state is State.READY} == {0}
    assert {(job.state, job.attempt, job.failures) for job in done} == {(State.SUCCEEDED, 1, 0)}
    assert sorted(map(int, yard.runs())) == list(range(200 * rounds))


@pytest.mark.slow
async def test_a_second_sigterm_takes_children_and_grandchildren_along(yard: Yard):
    job_ids = [await yard.submit("hold", name="a"), await yard.submit("hold_the_gil", name="b")]
    worker = yard.worker("--drain-timeout", "10m")
    family = {*await yard.pids("a"), *await yard.pids("b")}
    before = yard.survivors().keys()

    worker.terminate()
    await asyncio.to_thread(read_until, worker, "worker asked to leave")
    await asyncio.sleep(0.1)  # sooner, it would count as the first one's echo
    worker.terminate()
    worker.communicate(timeout=PATIENCE)
    jobs = await yard.jobs(job_ids)

    assert family <= before
    assert yard.survivors() == {}
    assert worker.returncode == 0
    assert {(job.state, job.failures, job.crashes) for job in jobs} == {(State.READY, 0, 0)}


def read_until(worker: "subprocess.Popen[str]", words: str) -> None:
    assert worker.stderr is not None
    assert any(words in line for line in worker.stderr)


async def test_ctrl_c_in_the_terminal_reaches_the_worker_and_not_its_children(yard: Yard):
    job_id = await yard.submit("hold", name="a")
    worker = yard.worker()
    await yard.pids("a")

    os.killpg(worker.pid, signal.SIGINT)
    assert worker.stderr is not None
    while "worker asked to leave" not in worker.stderr.readline():
        assert worker.poll() is None
    (yard.folder / "a.go").touch()
    worker.communicate(timeout=PATIENCE)
    job = await yard.job(job_id)

    assert worker.returncode == 0
    assert (job.state, job.result) == (State.SUCCEEDED, b'"a in attempt 1"')
    assert yard.survivors() == {}


@pytest.mark.prove
async def test_a_worker_that_was_stopped_past_its_lease_kills_its_child_and_settles_nothing(
    yard: Yard,
):
    job_id = await yard.submit("hold", name="a")
    first = yard.worker("--lease", "1s", "--name", "first")
    family = await yard.pids("a")

    async def is_started() -> bool:
        return (await yard.job(job_id)).started_at is not None

    await eventually(is_started, within=PATIENCE)
    engine = open_engine(yard.url)
    await stop(engine, first.pid)
    await engine.close()
    (yard.folder / "a.pids").unlink()
    second = yard.worker("--lease", "1s", "--name", "second")
    others = await yard.pids("a")
    first.send_signal(signal.SIGCONT)
    await eventually(lambda: not yard.survivors().keys() & set(family), within=PATIENCE)
    (yard.folder / "a.go").touch()
    job = await yard.ended(job_id)
    for worker in (first, second):
        worker.terminate()
        worker.communicate(timeout=PATIENCE)

    assert not set(others) & set(family)
    assert job.result == b'"a in attempt 2"'
    assert (job.failures, job.crashes, job.delivery) == (0, 1, 2)
    assert yard.survivors() == {}


@pytest.mark.slow
async def test_what_a_child_prints_and_logs_comes_out_of_the_worker(yard: Yard):
    job_id = await yard.submit("speak", words="aloud")
    worker = yard.worker("--json")

    await yard.ended(job_id)
    worker.terminate()
    out, err = worker.communicate(timeout=PATIENCE)

    logged = [json.loads(line) for line in err.splitlines() if '"logger": "shop"' in line]
    assert out.splitlines() == ["printed aloud"]
    assert [(line["event"], line["words"]) for line in logged] == [("logged", "aloud")]


@pytest.mark.slow
async def test_a_handler_can_submit_from_its_child_to_the_queue_of_its_worker(yard: Yard):
    job_id = await yard.submit("pass_on", words="on")
    worker = yard.worker()

    first = await yard.ended(job_id)
    second = await yard.ended(ids.parse(json.loads(first.result or b"null")))
    worker.terminate()
    out, _ = worker.communicate(timeout=PATIENCE)

    assert (first.state, second.state) == (State.SUCCEEDED, State.SUCCEEDED)
    assert out.splitlines() == ["printed on"]


SCRIPT = """
    import asyncio, os
    from longshore import Longshore

    app = Longshore("sqlite:///jobs.db")


    @app.task(execution="process")
    async def where(parent: int) -> bool:
        await asyncio.sleep(0)
        return os.getpid() != parent


    async def main():
        async with app:
            job = await where.submit(os.getpid())
            await app.work(until_idle=True)
            print("elsewhere:", await job.result())
"""


@pytest.mark.parametrize("words", [["script.py"], ["-m", "script"]], ids=" ".join)
async def test_a_script_can_hold_the_tasks_that_run_elsewhere(yard: Yard, words: list[str]):
    yard.script(SCRIPT + '\n    if __name__ == "__main__":\n        asyncio.run(main())\n')

    out, err = yard.start(*words).communicate(timeout=PATIENCE)

    assert (out, err) == ("elsewhere: True\n", "")
    assert yard.survivors() == {}


async def test_a_script_without_its_guard_is_told_about_it(yard: Yard):
    script = yard.script(SCRIPT + "\n    asyncio.run(main())\n")

    process = yard.start(script)
    out, err = process.communicate(timeout=PATIENCE)

    assert process.returncode == 1
    assert out == ""
    assert 'put what starts it under `if __name__ == "__main__":`' in err
    assert yard.survivors() == {}
    engine = open_engine(yard.url)
    (counts,) = await engine.counts()
    await engine.close()
    assert counts.ready == 1


async def test_tasks_that_were_typed_in_are_refused(yard: Yard):
    text = textwrap.dedent(SCRIPT) + "\nasyncio.run(main())\n"

    process = yard.start("-c", text)
    _, err = process.communicate(timeout=PATIENCE)

    assert process.returncode == 1
    assert "put them into a file" in err
