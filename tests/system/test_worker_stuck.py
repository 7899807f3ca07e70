"""Real workers that cannot claim: they say so, turn unready, and leave if asked to."""

import asyncio
import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from keeper_yard import PATIENCE, Hand, Yard, open_yard

from longshore.cli.exit_status import Exit
from longshore.core.state import State
from longshore.testing.harness import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="keepers are for Linux"),
]

SOON = ("--stuck-after", "2s")


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_yard(f"sqlite:///{tmp_path}/jobs.db", tmp_path) as yard:
        yield yard


@pytest.fixture
def ready(tmp_path: Path) -> Path:
    return tmp_path / "ready"


async def a_ready_worker(yard: Yard, ready: Path, *flags: str) -> Hand:
    hand = await yard.started("hog,quick", *SOON, "--ready-file", str(ready), *flags)
    await eventually(ready.exists, within=PATIENCE)
    return hand


@pytest.mark.slow
async def test_a_worker_whose_store_does_not_answer_is_unready_until_it_does(
    yard: Yard, ready: Path
):
    hand = await a_ready_worker(yard, ready)

    with sqlite3.connect(yard.folder / "jobs.db", isolation_level=None) as someone:
        someone.execute("begin immediate")
        stuck = await hand.logged("worker is stuck")
        await eventually(lambda: not ready.exists(), within=PATIENCE)
        someone.execute("rollback")
    someone.close()
    await hand.logged("worker can claim again")
    await eventually(ready.exists, within=PATIENCE)
    await yard.settled(await yard.submit("quick"))

    assert stuck["why"] == "the engine does not answer"
    hand.kill(signal.SIGTERM)
    assert await asyncio.to_thread(hand.process.wait, PATIENCE) == Exit.DONE
    assert not ready.exists()


@pytest.mark.slow
async def test_a_worker_whose_event_loop_stands_still_leaves_if_asked_and_says_where(
    yard: Yard, ready: Path
):
    hand = await a_ready_worker(yard, ready, "--exit-when-stuck")
    (job_id,) = await yard.submit("block", seconds=60.0)

    code = await asyncio.to_thread(hand.process.wait, PATIENCE)
    (job,) = await yard.settled([job_id], State.READY)

    (stuck,) = hand.lines("worker is stuck")
    assert code == Exit.STUCK
    assert stuck["why"] == "the event loop stands still"
    assert "keeper_app.py" in stuck["at"]
    assert not ready.exists()
    assert (job.crashes, job.failures) == (1, 0)


@pytest.mark.prove
async def test_the_keeper_says_it_for_a_worker_whose_interpreter_is_held(
    yard: Yard, ready: Path
):
    hand = await a_ready_worker(yard, ready)
    ids = await yard.submit("clutch", seconds=6.0)

    stuck = await hand.logged("worker is stuck")
    # It says so first, and takes the file away then; the handler holds on for seconds more.
    await eventually(lambda: not ready.exists(), within=PATIENCE)
    await yard.settled(ids)
    await eventually(ready.exists, within=PATIENCE)

    assert (stuck["logger"], stuck["why"]) == (
        "longshore.keeper",
        "a handler holds the interpreter",
    )


@pytest.mark.slow
async def test_a_worker_with_threads_that_never_end_begins_again_in_its_place(
    yard: Yard, ready: Path
):
    flags = ("--ready-file", str(ready), "--drain-timeout", "1s", "--concurrency", "4")
    hand = await yard.started("stuck,quick", *flags)
    (lost,) = await yard.submit("linger")
    await yard.settled([lost], State.DEAD)

    await hand.logged("worker begins again")
    await hand.logged("worker serves", 2)
    await eventually(ready.exists, within=PATIENCE)
    await yard.settled(await yard.submit("quick"))

    (begun,) = hand.lines("worker begins again")
    assert begun["pid"] == hand.pid
    assert {run.pid for run in yard.runs()} == {hand.pid}
    assert hand.lines("worker is stuck") == []
    hand.kill(signal.SIGTERM)
    assert await asyncio.to_thread(hand.process.wait, PATIENCE) == Exit.DONE


@pytest.mark.slow
async def test_several_processes_are_ready_when_all_of_them_are(yard: Yard, ready: Path):
    hand = yard.start("quick", "--processes", "2", "--ready-file", str(ready))
    await hand.logged("worker started", 2)
    await hand.logged("lease acquired")
    was_early = ready.exists() and len(hand.lines("lease acquired")) < 2
    await eventually(ready.exists, within=PATIENCE)
    hand.kill(signal.SIGTERM)

    assert await asyncio.to_thread(hand.process.wait, PATIENCE) == Exit.DONE
    assert not was_early
    assert not ready.exists()


@pytest.mark.prove
async def test_several_processes_are_not_ready_while_one_of_them_is_not(
    yard: Yard, ready: Path
):
    hand = yard.start("quick", "--processes", "2", "--ready-file", str(ready))
    await eventually(ready.exists, within=PATIENCE)
    first = (await hand.logged("worker started", 2))["pid"]

    os.kill(first, signal.SIGKILL)
    await eventually(lambda: not ready.exists(), within=PATIENCE)
    await eventually(ready.exists, within=PATIENCE)
    hand.kill(signal.SIGTERM)

    assert await asyncio.to_thread(hand.process.wait, PATIENCE) == Exit.DONE


async def test_a_ready_file_that_cannot_be_is_refused_in_a_line(yard: Yard, tmp_path: Path):
    hand = yard.start("quick", "--ready-file", str(tmp_path / "missing" / "ready"))

    code = await asyncio.to_thread(hand.process.wait, PATIENCE)

    assert code == Exit.USAGE
