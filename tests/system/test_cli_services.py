"""Processes that the command line starts, and how they end."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Timer

import pytest

from longshore.contract import JobFilter
from longshore.core import ids
from longshore.core.job import Job
from longshore.core.state import State
from longshore.engines import open_engine
from longshore.testing.harness import eventually

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
PATIENCE = 20.0
URL = "sqlite:///.longshore/jobs.db"


class Shell:
    """`longshore` as real processes in one folder."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._stack = stack
        clean = {name: value for name, value in os.environ.items() if "LONGSHORE" not in name}
        paths = os.pathsep.join(filter(None, [str(HERE), clean.get("PYTHONPATH")]))
        self._environ = {**clean, "PYTHONPATH": paths, "LONGSHORE_LOG_FORMAT": "text"}

    def start(self, *words: str) -> "subprocess.Popen[str]":
        process = self._stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "longshore", *words],
                cwd=self.folder,
                env=self._environ,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        self._stack.callback(process.kill)
        return process

    def run(self, *words: str) -> str:
        process = self.start(*words)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
        return out.strip()

    async def job(self, job_id: str) -> Job:
        engine = open_engine(f"sqlite:///{self.folder}/.longshore/jobs.db")
        try:
            return await engine.get(ids.parse(job_id))
        finally:
            await engine.close()

    async def held(self, name: str, task: str = "hold") -> str:
        """A job that is running now."""
        job_id = self.run("submit", "--app", "cli_app:app", task, f"name={name}")
        await eventually(lambda: self.path(f"{name}.started").exists(), within=PATIENCE)
        return job_id

    def path(self, name: str) -> Path:
        return self.folder / name


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with ExitStack() as stack:
        yield Shell(tmp_path, stack)


def ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """The exit code, and what it wrote to standard error."""
    _, err = process.communicate(timeout=PATIENCE)
    assert "Traceback" not in err
    return process.returncode, err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_a_worker_finish_what_it_runs(shell: Shell, number: signal.Signals):
    worker = shell.start("worker", "--app", "cli_app:app")
    job_id = await shell.held("a")

    worker.send_signal(number)
    await asyncio.to_thread(_line_with, worker, "signal received")
    shell.path("a.go").touch()

    assert ended(worker)[0] == 0
    job = await shell.job(job_id)
    assert (job.state, job.attempt, job.result) == (State.SUCCEEDED, 1, b'"a"')


async def test_a_worker_goes_on_though_nobody_reads_its_log(shell: Shell):
    worker = shell.start("worker", "--app", "cli_app:app")
    job_id = shell.run("submit", "--app", "cli_app:app", "chatter", "lines=1000")

    async def is_done() -> bool:
        return (await shell.job(job_id)).state is State.SUCCEEDED

    await eventually(is_done, within=PATIENCE)
    worker.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(worker.wait, PATIENCE) == 0


async def test_a_worker_says_which_queues_and_tasks_it_serves(shell: Shell):
    with_app = shell.start("worker", "--app", "cli_app:app", "--queues", "mail=3,bulk=1")
    without = shell.start("worker")

    line = await asyncio.to_thread(_line_with, with_app, "worker serves")
    warning = await asyncio.to_thread(_line_with, without, "no --app given")

    assert "queues=mail,bulk" in line
    assert "hold" in line
    assert "tasks=email.send,http.call,longshore.webhook,noop" in warning
    for worker in (with_app, without):
        worker.terminate()
        assert ended(worker)[0] == 0


async def test_a_worker_does_not_log_the_password_of_its_store(shell: Shell):
    url = "postgresql://ann:secret@127.0.0.1:1/jobs"
    worker = shell.start("--url", url, "worker", "--app", "cli_app:app", "--processes", "2")

    line = await asyncio.to_thread(_line_with, worker, "worker serves")
    worker.kill()

    assert "postgresql://ann@127.0.0.1:1/jobs" in line
    assert "secret" not in line


@pytest.mark.parametrize("task", ["hold", "hold_on"])
async def test_what_outlasts_the_drain_goes_back_uncharged(shell: Shell, task: str):
    """Also if it heeds nothing: neither it nor its threads keep the process from ending."""
    worker = shell.start("worker", "--app", "cli_app:app", "--drain-timeout", "100ms")
    job_id = await shell.held("a", task)

    worker.terminate()

    assert ended(worker)[0] == 0
    job = await shell.job(job_id)
    assert (job.state, job.failures, job.crashes) == (State.READY, 0, 0)


async def test_a_second_signal_leaves_at_once_and_loses_nothing(shell: Shell):
    worker = shell.start("worker", "--app", "cli_app:app", "--drain-timeout", "10m")
    job_id = await shell.held("a")

    worker.terminate()
    await asyncio.to_thread(_line_with, worker, "signal received")
    await asyncio.sleep(0.1)  # sooner, it would count as the first one's echo
    worker.terminate()

    assert ended(worker)[0] == 0
    job = await shell.job(job_id)
    assert (job.state, job.failures, job.crashes) == (State.READY, 0, 0)


@pytest.mark.slow
async def test_several_processes_drain_together(shell: Shell):
    worker = shell.start("worker", "--app", "cli_app:app", "--processes", "2", "--json")
    job_id = await shell.held("a")
    listed = partial(shell.run, "workers", "list", "--json")
    await eventually(lambda: len(listed().split("\n")) == 2, within=PATIENCE)
    shell.path("a.go").touch()

    worker.terminate()

    code, err = ended(worker)
    lines = [json.loads(line) for line in err.splitlines()]
    assert code == 0
    assert [line["code"] for line in lines if line["event"] == "worker ended"] == [0, 0]
    assert (await shell.job(job_id)).state is State.SUCCEEDED
    assert shell.run("workers", "list", "--json") == ""


async def test_dev_runs_jobs_and_schedules_in_one_process(shell: Shell):
    dev = shell.start("dev", "--app", "cli_app:app")
    await eventually(lambda: shell.path(".longshore/jobs.db").exists(), within=PATIENCE)

    waited = shell.run("submit", "noop", "--delay", "50ms", "--wait", "--json")
    # Lines come when they come; the last of these ends the test's wait for all.
    words = ["try     longshore --app cli_app:app submit", "job.succeeded type=noop"]
    said = await asyncio.to_thread(_lines_until, dev, {*words, "schedule fired"})
    dev.send_signal(signal.SIGINT)

    assert json.loads(waited)["state"] == "succeeded"
    assert "Traceback" not in said
    assert ended(dev)[0] == 0


async def test_a_scheduler_alone_promotes_and_fires(shell: Shell):
    shell.run("submit", "noop", "--delay", "1ms")
    scheduler = shell.start("scheduler", "--app", "cli_app:app")

    async def ready() -> int:
        engine = open_engine(f"sqlite:///{shell.folder}/.longshore/jobs.db")
        try:
            found = await engine.find(JobFilter(state=State.READY), limit=10)
        finally:
            await engine.close()
        return len(found.jobs) >= 3

    await eventually(ready, within=PATIENCE)
    scheduler.terminate()

    assert ended(scheduler)[0] == 0


async def test_interrupting_a_wait_is_quiet(shell: Shell):
    job_id = shell.run("submit", "noop")
    waiting = shell.start("jobs", "wait", job_id)
    # Python restores its own SIGINT handling before our code runs; what tells us that the
    # command is in its loop is that it reads the file.
    await eventually(lambda: _reads(waiting.pid, "jobs.db"), within=PATIENCE)

    waiting.send_signal(signal.SIGINT)

    assert ended(waiting) == (130, "")


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["--app", "nowhere:app"], 2, "no module 'nowhere'"),
        (["--app", "cli_app:app", "--queues", "a=1,b"], 2, "weight"),
        (["--concurrency", "0"], 2, "at least 1"),
        (["--lease", "1ms"], 2, "at least 100ms"),
        (["--processes", "2", "--app", "nowhere:app"], 2, "no module 'nowhere'"),
        (["--app", "cli_app:app", "--url", "sqlite:////proc/nope/jobs.db"], 7, "/proc/nope"),
        (["--url", "sqlite://:memory:"], 2, "only `longshore dev`"),
    ],
)
def test_a_worker_that_cannot_start_says_why_in_a_line(
    shell: Shell, words: list[str], code: int, complaint: str
):
    worker = shell.start("worker", *words)

    exit_code, err = ended(worker)

    assert exit_code == code
    assert complaint in err
    assert len(err.splitlines()) == 1


def _line_with(process: "subprocess.Popen[str]", words: str) -> str:
    assert process.stderr is not None
    return next(line for line in process.stderr if words in line)


def _lines_until(process: "subprocess.Popen[str]", words: set[str]) -> str:
    """What it writes until all of these were there."""
    assert process.stderr is not None
    deadline, said = Timer(PATIENCE, process.kill), ""
    deadline.start()
    try:
        while not all(one in said for one in words):
            line = process.stderr.readline()
            assert line, f"it ended after {said}"
            said += line
    finally:
        deadline.cancel()
    return said


def _reads(pid: int, name: str) -> bool:
    try:
        links = [os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return False
    return any(link.endswith(name) for link in links)
