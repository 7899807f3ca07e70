"""Jobs that break the process of their worker from inside, and signals at odd moments."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from poison_app import HARMLESS, REFUSED, SIGNALLING
from poison_yard import HERE, PATIENCE, Yard, job, open_yard

from longshore.core.job import Job, NewJob
from longshore.core.state import State
from longshore.testing.harness import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="keepers are for Linux"),
]
SOME = ["kill SIGTERM", "raise SIGINT", "cancel all tasks", "stop the loop"]
NEIGHBOURS = ["healthy_async", "healthy_thread", "healthy"]


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if getattr(request, "param", "sqlite") == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
async def yard(url: str, tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_yard(url, tmp_path) as yard:
        yield yard


def neighbours(count: int = 9) -> list[NewJob]:
    return [job(NEIGHBOURS[n % 3], n, seconds=0.2) for n in range(1, count + 1)]


def facts(one: Job) -> tuple[State, str | None, int, int]:
    return one.state, one.reason, one.failures, one.crashes


@pytest.mark.parametrize(
    ("url", "loop", "ways"),
    [
        ("sqlite", "uvloop", list(REFUSED)),
        ("sqlite", "asyncio", SOME),
        ("postgres", "uvloop", SOME),
    ],
    indirect=["url"],
    ids=["sqlite-uvloop", "sqlite-asyncio", "postgres-uvloop"],
)
async def test_a_job_that_signals_its_worker_or_cancels_all_or_stops_the_loop_harms_nobody(
    yard: Yard, loop: str, ways: list[str]
):
    if loop == "asyncio":
        (yard.folder / "no-uvloop").touch()
    bad = [job("fatal_2", 100 + n, how=how) for n, how in enumerate(ways)]
    # A function in a thread has no event loop to stop.
    by_thread = [how for how in ways if how in SIGNALLING]
    bad += [job("fatal_thread", 200 + n, how=how) for n, how in enumerate(by_thread)]
    good = neighbours()
    ids = await yard.submit([*good[:4], *bad, *good[4:]])

    # Room for all of them at once, in the worker and in child processes.
    with yard.worker("--children", str(len(bad))) as worker:
        ended = {one.id: one for one in await yard.ended(ids)}
        code = worker.poll()

    assert code is None
    assert worker.returncode == 0
    assert {facts(ended[one.id]) for one in bad} == {(State.DEAD, "poison", 0, 2)}
    assert {facts(ended[one.id]) for one in good} == {(State.SUCCEEDED, None, 0, 0)}
    runs = yard.runs()
    assert {n: runs.pop(n) for n in range(1, 10)} == dict.fromkeys(range(1, 10), 1)
    assert len(runs) == len(bad)
    assert set(runs.values()) == {2}
    # The first run was beside the others, the last in a process of its own.
    for number in runs:
        first, last = (pid for n, pid, _ in yard.ledger() if n == number)
        assert first == worker.pid != last


@pytest.mark.parametrize(
    ("url", "how", "codes"),
    [
        ("postgres", "kill SIGTERM in a thread", {77}),
        ("sqlite", "raise SIGINT in a thread", {77}),
        # uvloop may notice before Longshore does, and aborts.
        ("sqlite", "close all files", {77, -signal.SIGABRT}),
    ],
    indirect=["url"],
)
async def test_a_job_that_ends_its_own_process_is_poison_and_its_neighbours_succeed(
    yard: Yard, how: str, codes: set[int]
):
    bad, good = job("fatal_2", 0, how=how), neighbours()
    ids = await yard.submit([*good[:4], bad, *good[4:]])

    with yard.worker("--processes", "2"):
        ended = {one.id: one for one in await yard.ended(ids)}

    assert facts(ended[bad.id]) == (State.DEAD, "poison", 0, 2)
    assert yard.runs()[0] == 2
    healthy = [ended[one.id] for one in good]
    assert {(one.state, one.failures) for one in healthy} == {(State.SUCCEEDED, 0)}
    # A worker that the last signal met before it had a handler is none that a job has ended.
    ends = yard.logged("worker ended")
    deaths = [one for one in ends if one["crashed"] and one["code"] != -signal.SIGTERM]
    assert len(deaths) == 1
    assert deaths[0]["code"] in codes


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
async def test_a_worker_outlives_what_only_looks_harmful_and_still_stops_when_it_is_told_to(
    yard: Yard, loop: str
):
    if loop == "asyncio":
        (yard.folder / "no-uvloop").touch()
    odd = [job("fatal_2", 100 + n, how=how) for n, how in enumerate(HARMLESS)]
    # A process that a job forks inherits the signal handlers that another has set.
    forking = job("fatal_2", 99, how="end a forked process")
    apart, good = job("poison_1", 0, how="leave the session"), neighbours()

    with yard.worker("--concurrency", "4") as worker:
        ended = await yard.ended(await yard.submit([forking]))
        ended += await yard.ended(await yard.submit([*good[:4], *odd, apart, *good[4:]]))
        await eventually(lambda: len(yard.logged("signal handler replaced by a job")) >= 2)
        code = worker.poll()

    assert code is None
    assert {facts(one) for one in ended} == {(State.SUCCEEDED, None, 0, 0)}
    assert set(yard.runs().values()) == {1}
    assert worker.returncode == 0


async def test_a_job_that_closes_the_loop_it_runs_on_just_fails(yard: Yard):
    (held,) = await yard.submit([job("fatal_2", 0, how="close the loop", max_attempts=1)])

    with yard.worker() as worker:
        (ended,) = await yard.ended([held])

    assert facts(ended) == (State.DEAD, "exhausted", 1, 0)
    assert worker.returncode == 0


async def test_a_program_that_works_charges_the_job_that_cancels_all_its_tasks(
    yard: Yard, url: str
):
    bad, good = job("fatal_2", 0, how="cancel all tasks"), neighbours(4)
    ids = await yard.submit([*good[:2], bad, *good[2:]])

    words = [sys.executable, str(HERE / "embedded_process.py"), url]
    codes = [
        subprocess.run(words, cwd=yard.folder, timeout=PATIENCE, check=False).returncode
        for _ in range(3)
    ]

    # The job cancels the program's own task too, as long as it is alive.
    assert codes == [1, 1, 0]
    ended = {one.id: one for one in await yard.ended(ids)}
    assert facts(ended[bad.id]) == (State.DEAD, "poison", 0, 2)
    assert {facts(ended[one.id]) for one in good} == {(State.SUCCEEDED, None, 0, 0)}


@pytest.mark.parametrize("options", [[], ["--processes", "2"]], ids=["one", "several"])
async def test_a_second_signal_that_comes_when_all_is_done_ends_the_worker_with_code_0(
    yard: Yard, options: list[str]
):
    (yard.folder / "block-exit").touch()
    (held,) = await yard.submit([job("healthy_async", 0)])

    with yard.worker(*options) as worker:
        await yard.ended([held])
        os.kill(worker.pid, signal.SIGTERM)
        await eventually((yard.folder / "exiting").exists, within=PATIENCE)

    assert worker.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_that_comes_before_there_is_anything_to_drain_ends_it_with_code_0(
    yard: Yard, number: signal.Signals
):
    (yard.folder / "block-import").touch()

    with yard.worker() as worker:
        await eventually((yard.folder / "importing").exists, within=PATIENCE)
        os.kill(worker.pid, number)
        worker.wait(PATIENCE)

    assert worker.returncode == 0
