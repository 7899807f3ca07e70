"""A worker as process 1 of its container: it reaps, forwards, and lets its keeper finish."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path

import pytest
from keeper_yard import PATIENCE, Hand, Yard, open_yard

from longshore.core.state import State
from longshore.testing.harness import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="containers are for Linux"),
]

NAMESPACE = ["--pid", "--fork", "--mount-proc", "--kill-child"]
SUBREAPER = [sys.executable, str(Path(__file__).with_name("init_process.py"))]
ITSELF = [sys.executable, "-m", "longshore"]


@cache
def command() -> tuple[list[str], bool]:
    """How to start one as process 1, or else as one that orphans are handed to."""
    for words in (NAMESPACE, ["--user", "--map-root-user", *NAMESPACE]):
        try:
            done = subprocess.run(["unshare", *words, "true"], check=False, capture_output=True)
        except FileNotFoundError:
            break
        if done.returncode == 0:
            return ["unshare", *words, *ITSELF], True
    return SUBREAPER, False


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_yard(f"sqlite:///{tmp_path}/jobs.db", tmp_path) as yard:
        yield yard


class Container:
    """A worker, the process in front of it, and what was left to that one."""

    def __init__(self, hand: Hand, *, is_wrapped: bool) -> None:
        self.hand = hand
        (self.first,) = children(hand.pid) if is_wrapped else [hand.pid]

    @property
    def worker(self) -> int:
        return next(pid for pid in children(self.first) if "worker" in words_of(pid))

    @property
    def dead(self) -> list[int]:
        """Children of the first process that ended and were not reaped."""
        return [pid for pid in children(self.first) if state_of(pid) == "Z"]

    async def code(self) -> int:
        return await asyncio.to_thread(self.hand.process.wait, PATIENCE)


async def a_container(yard: Yard) -> Container:
    words, is_wrapped = command()
    hand = await yard.started("hold,hog", command=words)
    return Container(hand, is_wrapped=is_wrapped)


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def words_of(pid: int) -> str:
    """What a process was started with; nothing of one that has just gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def state_of(pid: int) -> str:
    """How the kernel calls the state of a process; nothing of one that has just gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


async def test_orphans_are_reaped_and_a_signal_drains_the_worker(yard: Yard):
    container = await a_container(yard)
    await yard.settled(await yard.submit("orphan", 5))
    (held,) = await yard.submit("hold")
    await eventually(lambda: len(yard.runs()) == 6, within=PATIENCE)
    # The orphans have ended by then, or do so while this waits.
    await eventually(
        lambda: not any("sleep" in one for one in others(container)), within=PATIENCE
    )
    await eventually(lambda: not container.dead, within=PATIENCE)

    os.kill(container.first, signal.SIGTERM)
    await container.hand.logged("worker asked to leave")
    yard.go()

    assert await container.code() == 0
    (job,) = await yard.settled([held])
    assert (job.delivery, job.crashes) == (1, 0)


def others(container: Container) -> list[str]:
    return [words_of(pid) for pid in children(container.first)]


async def test_a_killed_worker_ends_the_container_after_its_keeper_has_told(yard: Yard):
    container = await a_container(yard)
    (job_id,) = await yard.submit("hold")
    await yard.ran(1)

    os.kill(container.worker, signal.SIGKILL)
    code = await container.code()

    job = await yard.engine.get(job_id)
    assert code == 128 + signal.SIGKILL
    assert (job.state, job.crashes) == (State.READY, 1)
    assert len(container.hand.lines("worker died, its jobs are free")) == 1
